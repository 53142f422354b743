// SPDX-License-Identifier: GPL-2.0

//! A heat map: which durations calls had at which time.

use std::{
    collections::BTreeMap,
    fs, //
};

use crate::{
    duration,
    failure::{
        Failure,
        Result, //
    },
    svg::escape, //
};

/// The most columns. A run that has more of them gets wider ones.
const MAX_COLUMNS: usize = 300;
const LEFT: usize = 90;
const TOP: usize = 44;
const ROW: usize = 20;
/// The width of all columns together, if there are many.
const WIDTH: usize = 900;
const MAX_COLUMN: usize = 40;
/// The least space between two times.
const MIN_LABEL: usize = 80;
/// The width of the legend, and of the number at its end.
const LEGEND: usize = 150;

/// The calls of a part of the run.
#[derive(Clone, Debug, Default, PartialEq)]
struct Column {
    /// The end of the part, in ns since the start of the run.
    end: u64,
    /// The calls by the exponent of the longest duration of the bucket.
    calls: BTreeMap<u32, u64>,
}

/// A heat map that grows.
#[derive(Default)]
pub struct Heat {
    columns: Vec<Column>,
    /// How many parts are in a column.
    merged: usize,
    /// How many are in the last column.
    in_last: usize,
}

impl Heat {
    /// Adds the calls of the next part of the run, by the exponents of the upper bounds of their durations. `end` is in ns
    /// since the start of the run.
    pub fn add(&mut self, end: u64, calls: impl Iterator<Item = (u32, u64)>) {
        self.merged = self.merged.max(1);
        let mut new = Column {
            end,
            calls: calls.filter(|(_, count)| *count > 0).collect(),
        };
        match self.columns.last_mut() {
            Some(last) if self.in_last < self.merged => {
                join(last, &mut new);
                self.in_last += 1;
            }
            _ => {
                self.columns.push(new);
                self.in_last = 1;
            }
        }
        if self.columns.len() > MAX_COLUMNS {
            self.halve();
        }
    }

    /// Joins each column with the next.
    fn halve(&mut self) {
        let is_odd = self.columns.len() % 2 == 1;
        let pairs = self.columns.chunks(2).map(|pair| {
            let mut first = pair[0].clone();
            if let Some(second) = pair.get(1) {
                join(&mut first, &mut second.clone());
            }
            first
        });
        self.columns = pairs.collect();
        if !is_odd {
            self.in_last += self.merged;
        }
        self.merged *= 2;
    }

    /// Writes an SVG image with a title to the file `path`.
    pub fn write(&self, path: &str, title: &str) -> Result {
        fs::write(path, self.image(title)).map_err(|error| Failure::file(path, &error))
    }

    fn image(&self, title: &str) -> String {
        let rows = || self.columns.iter().flat_map(|column| &column.calls);
        let highest = rows().map(|(_, count)| *count).max().unwrap_or(0);
        let first = rows().map(|(exponent, _)| *exponent).min().unwrap_or(0);
        let last = rows().map(|(exponent, _)| *exponent).max().unwrap_or(0);
        let count = if highest == 0 {
            0
        } else {
            (last - first + 1) as usize
        };
        let column = (WIDTH / self.columns.len().max(1)).clamp(1, MAX_COLUMN);
        let bottom = TOP + count * ROW;
        let width = (LEFT + self.columns.len() * column + 20).max(LEFT + 2 * LEGEND + 40);
        let height = bottom + 66;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             font-family=\"monospace\" font-size=\"14\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"14\" y=\"26\" font-weight=\"bold\">{}</text>\n",
            escape(title)
        );
        if count == 0 {
            return text + "</svg>\n";
        }
        for line in 0..=count {
            let y = bottom - line * ROW;
            // A bucket is between two powers of two.
            let exponent = (first + line as u32).checked_sub(1);
            let bound = duration::show(exponent.map_or(0, power));
            text += &format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-size=\"12\">{bound}</text>\n",
                LEFT - 8,
                y + 4
            );
        }
        let mut start = 0;
        let mut label = 0;
        for (index, Column { end, calls }) in self.columns.iter().enumerate() {
            let x = LEFT + index * column;
            for (exponent, count) in calls {
                let y = bottom - (exponent - first + 1) as usize * ROW;
                text += &format!(
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{column}\" height=\"{ROW}\" fill=\"{}\"><title>{} to {}: {count} \
                     calls of {} to {}</title></rect>\n",
                    color(*count, highest),
                    seconds(start),
                    seconds(*end),
                    duration::show(exponent.checked_sub(1).map_or(0, power)),
                    duration::show(power(*exponent)),
                );
            }
            if x >= label {
                text += &format!(
                    "<text x=\"{x}\" y=\"{}\" font-size=\"12\">{}</text>\n",
                    bottom + 18,
                    seconds(start)
                );
                label = x + MIN_LABEL;
            }
            start = *end;
        }
        let right = LEFT + self.columns.len() * column;
        text += &format!(
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#888888\"/>\n"
        );
        text + &legend(bottom + 34, highest) + "</svg>\n"
    }
}

fn join(first: &mut Column, second: &mut Column) {
    first.end = second.end;
    for (exponent, count) in &second.calls {
        *first.calls.entry(*exponent).or_default() += count;
    }
}

fn power(exponent: u32) -> u64 {
    1_u64.checked_shl(exponent).unwrap_or(u64::MAX)
}

fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

/// The colours from 1 call to the highest count.
fn legend(y: usize, highest: u64) -> String {
    const STEPS: usize = 10;

    let size = LEGEND / STEPS;
    let mut text = format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-size=\"12\">1 call</text>\n",
        LEFT - 8,
        y + 12
    );
    for step in 0..STEPS {
        let part = step as f64 / (STEPS - 1) as f64;
        let count = (highest as f64).powf(part).round() as u64;
        text += &format!(
            "<rect x=\"{}\" y=\"{y}\" width=\"{size}\" height=\"14\" fill=\"{}\"/>\n",
            LEFT + step * size,
            color(count, highest)
        );
    }
    text + &format!(
        "<text x=\"{}\" y=\"{}\" font-size=\"12\">{highest} in one field</text>\n",
        LEFT + LEGEND + 8,
        y + 12
    )
}

/// A colour between a light and a dark one. Each tenfold count is as much darker.
fn color(count: u64, highest: u64) -> String {
    const LIGHT: [f64; 3] = [214.0, 236.0, 233.0];
    const DARK: [f64; 3] = [9.0, 49.0, 61.0];

    let part = match highest {
        0 | 1 => 1.0,
        _ => (count.max(1) as f64).ln() / (highest as f64).ln(),
    };
    let channel = |index: usize| (LIGHT[index] + (DARK[index] - LIGHT[index]) * part) as u8;
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_the_calls_of_its_time_and_duration() {
        let mut heat = Heat::default();
        heat.add(1_000_000_000, [(10, 4), (12, 100)].into_iter());
        heat.add(2_000_000_000, [(11, 0), (12, 10)].into_iter());
        let image = heat.image("f < g");
        assert!(image.contains(">f &lt; g<"));
        assert_eq!(image.matches("<title>").count(), 3);
        let field = "width=\"40\" height=\"20\" fill=\"#09313d\"><title>0.0 s to 1.0 s: 100 calls of 2.05 us to 4.10 us";
        assert!(image.contains(field), "{image}");
        assert!(image.contains("x=\"130\" y=\"44\""));
        for (bound, y) in [
            ("512 ns", 108),
            ("1.02 us", 88),
            ("2.05 us", 68),
            ("4.10 us", 48),
        ] {
            let label = format!("y=\"{y}\" text-anchor=\"end\" font-size=\"12\">{bound}<");
            assert!(image.contains(&label), "{image}");
        }
        assert!(image.contains(">100 in one field<"));
        assert!(!Heat::default().image("x").contains("NaN"));
    }

    #[test]
    fn a_long_run_has_wider_columns() {
        let mut heat = Heat::default();
        for part in 1..=2_000 {
            heat.add(part, [(5, 1)].into_iter());
        }
        assert!(heat.columns.len() <= MAX_COLUMNS);
        let calls = heat.columns.iter().map(|column| column.calls[&5]);
        assert_eq!(calls.clone().sum::<u64>(), 2_000);
        assert_eq!(heat.columns.last().unwrap().end, 2_000);
        let inner: Vec<u64> = calls.take(heat.columns.len() - 1).collect();
        assert!(inner.iter().all(|calls| *calls == 8), "{inner:?}");
    }

    #[test]
    fn more_calls_are_darker() {
        assert_eq!(color(1, 1000), "#d6ece9");
        assert_eq!(color(1000, 1000), "#09313d");
        assert_eq!(color(1, 1), "#09313d");
    }
}
