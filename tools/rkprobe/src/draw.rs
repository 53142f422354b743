// SPDX-License-Identifier: GPL-2.0

//! Bars for terminals of any width.

use crate::rust_names;

/// Where the output goes.
#[derive(Clone, Copy)]
pub struct Screen {
    /// Columns of the terminal. `None` if the output is no terminal: then there are no bars.
    pub columns: Option<usize>,
    /// Whether bars have a colour.
    pub has_color: bool,
    /// Whether the terminal shows block characters.
    pub has_blocks: bool,
}

/// A row of a diagram: its label, and its value.
pub struct Bar {
    /// The text on the left.
    pub label: String,
    /// The number after the label, and the length of the bar.
    pub value: u64,
}

const COLOR: &str = "\x1b[36m";
const NORMAL: &str = "\x1b[0m";
/// The shortest bar that still says something.
const MIN_BAR: usize = 4;

/// One line for each bar. No line is wider than the terminal.
pub fn bars(bars: &[Bar], screen: Screen) -> String {
    let length = |bar: &Bar| width(&bar.label);
    let value_width = bars
        .iter()
        .map(|bar| bar.value.to_string().len())
        .max()
        .unwrap_or(0);
    let mut label_width = bars.iter().map(length).max().unwrap_or(0);
    let highest = bars.iter().map(|bar| bar.value).max().unwrap_or(0).max(1);
    let mut room = 0;
    if let Some(columns) = screen.columns {
        let others = value_width + 2;
        label_width = label_width.min(columns.saturating_sub(others).max(1));
        room = columns.saturating_sub(label_width + others + 1);
        if room < MIN_BAR {
            room = 0;
        }
    }
    let mut text = String::new();
    for bar in bars {
        let label = shorten(&bar.label, label_width);
        let label = pad(&label, label_width);
        let line = format!("{label}  {:>value_width$}", bar.value);
        text += &line;
        if room > 0 && bar.value > 0 {
            let (start, end) = if screen.has_color {
                (COLOR, NORMAL)
            } else {
                ("", "")
            };
            text += &format!(
                " {start}{}{end}",
                blocks(bar.value, highest, room, screen.has_blocks)
            );
        }
        text.push('\n');
    }
    text
}

/// A line of `width` characters with a mark at the place of `value` between 0 and `highest`.
pub fn track(value: u64, highest: u64, width: usize, screen: Screen) -> String {
    let last = width.saturating_sub(1);
    let place = (u128::from(value) * last as u128 / u128::from(highest.max(1))) as usize;
    let place = place.min(last);
    let (line, mark) = match screen.has_blocks {
        true => ("\u{2500}", "\u{25cf}"),
        false => ("-", "*"),
    };
    let (start, end) = match screen.has_color {
        true => (COLOR, NORMAL),
        false => ("", ""),
    };
    format!(
        "{}{start}{mark}{end}{}",
        line.repeat(place),
        line.repeat(last - place)
    )
}

/// The number of characters of a text, as it is printed.
pub fn width(text: &str) -> usize {
    rust_names::shown(text).chars().count()
}

/// A text with blanks at its end, so that it has `width` characters.
pub fn pad(text: &str, width: usize) -> String {
    format!("{:width$}", rust_names::shown(text))
}

/// A text of at most `width` characters. The end of a long one becomes a dot.
pub fn shorten(text: &str, width: usize) -> String {
    let text = rust_names::shown(text);
    if text.chars().count() <= width {
        return text.into_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['.'])
        .collect()
}

/// A bar with the length of `value`, where `highest` fills `room`.
pub fn blocks(value: u64, highest: u64, room: usize, has_blocks: bool) -> String {
    let eighths = (u128::from(value) * room as u128 * 8 / u128::from(highest)).max(1) as usize;
    if !has_blocks {
        return "#".repeat(eighths.div_ceil(8));
    }
    let mut text = "\u{2588}".repeat(eighths / 8);
    if let Some(part) = char::from_u32(0x2590 - (eighths % 8) as u32).filter(|_| eighths % 8 > 0) {
        text.push(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(columns: Option<usize>, has_blocks: bool) -> Screen {
        Screen {
            columns,
            has_color: false,
            has_blocks,
        }
    }

    fn rows() -> Vec<Bar> {
        [("a long label", 1000), ("b", 500), ("c", 1), ("d", 0)]
            .map(|(label, value)| Bar {
                label: label.into(),
                value,
            })
            .into()
    }

    #[test]
    fn fits_terminals_of_any_width() {
        for columns in 8..200 {
            for has_blocks in [false, true] {
                let text = bars(&rows(), screen(Some(columns), has_blocks));
                assert_eq!(text.lines().count(), 4);
                for line in text.lines() {
                    assert!(line.chars().count() <= columns, "{columns}: {line}");
                }
            }
        }
    }

    #[test]
    fn draws_in_proportion() {
        let text = bars(&rows(), screen(Some(39), false));
        let expected = format!(
            "a long label  1000 {}\nb{:11}   500 {}\nc{:11}     1 #\nd{:11}     0\n",
            "#".repeat(20),
            "",
            "#".repeat(10),
            "",
            ""
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_track_has_a_mark_at_the_place_of_the_value() {
        let screen = screen(None, false);
        assert_eq!(track(0, 0, 4, screen), "*---");
        assert_eq!(track(5, 10, 5, screen), "--*--");
        assert_eq!(track(20, 10, 4, screen), "---*");
        assert_eq!(track(u64::MAX, u64::MAX, 3, screen), "--*");
    }

    #[test]
    fn draws_nothing_into_pipes() {
        let text = bars(&rows(), screen(None, true));
        assert!(text.is_ascii());
        assert!(!text.contains('#'));
    }
}
