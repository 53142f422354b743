// SPDX-License-Identifier: GPL-2.0

//! An image of the ways of calls through a function: a row for each block, and a lane for each way, with a dot where the
//! way comes through the block.

use std::fs;

use crate::{
    draw,
    failure::{
        Failure,
        Result, //
    },
    svg::{
        escape,
        CHARACTER, //
    }, //
};

const ROW: usize = 24;
const LANE: usize = 90;
/// The room for the title, and for the heads of the lanes above the rows.
const TOP: usize = 44;
const HEAD: usize = 48;
const EDGE: usize = 14;

const SUCCESS: &str = "#2b7a78";
const FAILURE: &str = "#b8442e";

/// The calls that took one way.
pub struct Lane {
    /// The result of the calls.
    pub result: String,
    pub is_failure: bool,
    pub count: u64,
    /// The places of the blocks.
    pub places: Vec<String>,
    /// The place where the way leaves others, and a text about it.
    pub mark: Option<(String, String)>,
}

/// The ways through one function.
pub struct Lanes {
    pub function: String,
    pub lanes: Vec<Lane>,
    /// What is known of a place, such as its source line.
    pub notes: Vec<(String, String)>,
}

/// Writes an image with a title to the file `path`.
pub fn write(path: &str, title: &str, functions: &[Lanes]) -> Result {
    fs::write(path, image(title, functions)).map_err(|error| Failure::file(path, &error))
}

fn image(title: &str, functions: &[Lanes]) -> String {
    let mut top = TOP;
    let mut width = EDGE * 2 + draw::width(title) * CHARACTER;
    let mut body = String::new();
    for function in functions {
        let part = Part::new(function, functions.len() > 1);
        body += &part.draw(top);
        top += part.height();
        width = width.max(part.width());
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{}\" font-family=\"monospace\" \
         font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{EDGE}\" y=\"26\" font-weight=\"bold\">{}</text>\n{body}</svg>\n",
        top + 10,
        escape(title)
    )
}

/// The part of the image about one function.
struct Part<'a> {
    function: &'a Lanes,
    /// The places in their order.
    rows: Vec<&'a str>,
    /// The texts left of the lanes.
    labels: Vec<String>,
    /// The texts right of the lanes.
    marks: Vec<String>,
    name: Option<&'a str>,
}

impl<'a> Part<'a> {
    fn new(function: &'a Lanes, has_name: bool) -> Self {
        let rows = order(&function.lanes);
        let label = |place: &&str| {
            let note = function.notes.iter().find(|(of, _)| of == place);
            note.map_or_else(|| place.to_string(), |(_, note)| format!("{note}  {place}"))
        };
        let mark = |place: &&str| {
            let marks = function.lanes.iter().filter_map(|lane| lane.mark.as_ref());
            let mut texts: Vec<&str> = marks
                .filter(|(at, _)| at == place)
                .map(|(_, text)| &**text)
                .collect();
            texts.dedup();
            texts.join("; ")
        };
        Self {
            labels: rows.iter().map(label).collect(),
            marks: rows.iter().map(mark).collect(),
            name: has_name.then_some(&*function.function),
            function,
            rows,
        }
    }

    /// The room for the function's name.
    fn name_height(&self) -> usize {
        self.name.map_or(0, |_| ROW)
    }

    fn height(&self) -> usize {
        self.name_height() + HEAD + self.rows.len() * ROW
    }

    /// The left edge of the lanes.
    fn left(&self) -> usize {
        EDGE * 2 + longest(&self.labels) * CHARACTER
    }

    fn right(&self) -> usize {
        self.left() + self.function.lanes.len() * LANE
    }

    fn width(&self) -> usize {
        self.right() + longest(&self.marks) * CHARACTER + EDGE * 2
    }

    /// The part, with its upper edge at `top`.
    fn draw(&self, top: usize) -> String {
        let mut text = String::new();
        if let Some(name) = self.name {
            let y = top + 14;
            text += &format!(
                "<text x=\"{EDGE}\" y=\"{y}\" font-weight=\"bold\">{}</text>\n",
                escape(name)
            );
        }
        let top = top + self.name_height();
        let first = top + HEAD;
        let y = |row: usize| first + row * ROW;
        for (row, (label, mark)) in self.labels.iter().zip(&self.marks).enumerate() {
            let (line, base) = (y(row), y(row) + 5);
            text += &format!(
                "<path d=\"M{} {line}H{}\" stroke=\"#dddddd\"/>\n\
                 <text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>\n",
                self.left(),
                self.right(),
                self.left() - EDGE,
                escape(label)
            );
            if !mark.is_empty() {
                let (x, mark) = (self.right() + EDGE / 2, escape(mark));
                text += &format!("<text x=\"{x}\" y=\"{base}\" fill=\"{FAILURE}\">{mark}</text>\n");
            }
        }
        for (index, lane) in self.function.lanes.iter().enumerate() {
            let x = self.left() + index * LANE + LANE / 2;
            text += &self.draw_lane(lane, x, top, &y);
        }
        text
    }

    fn draw_lane(&self, lane: &Lane, x: usize, top: usize, y: &impl Fn(usize) -> usize) -> String {
        let color = if lane.is_failure { FAILURE } else { SUCCESS };
        let calls = match lane.count {
            1 => "1 call".into(),
            count => format!("{count} calls"),
        };
        let mut text = format!(
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" fill=\"{color}\">{}</text>\n\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"12\">{calls}</text>\n",
            top + 12,
            escape(&lane.result),
            top + 28
        );
        let row_of = |place: &String| self.rows.iter().position(|row| row == place);
        let rows: Vec<usize> = lane.places.iter().filter_map(row_of).collect();
        let mut line = String::new();
        for (index, row) in rows.iter().map(|row| y(*row)).enumerate() {
            let before = index.checked_sub(1).map(|before| y(rows[before]));
            line += &match before {
                None => format!("M{x} {row}"),
                Some(before) if before < row => format!("V{row}"),
                // A way back goes around the dots between.
                Some(before) => {
                    let side = x + LANE / 3;
                    format!("C{side} {before} {side} {row} {x} {row}")
                }
            };
        }
        text +=
            &format!("<path d=\"{line}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"3\"/>\n");
        for (row, place) in rows.iter().zip(&lane.places) {
            let is_marked = lane.mark.as_ref().is_some_and(|(at, _)| at == place);
            let (fill, radius) = if is_marked {
                ("#ffffff", 7)
            } else {
                (color, 5)
            };
            text += &format!(
                "<circle cx=\"{x}\" cy=\"{}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"3\"/>\n",
                y(*row)
            );
        }
        text
    }
}

/// The width of the longest text.
fn longest(texts: &[String]) -> usize {
    texts
        .iter()
        .map(|text| draw::width(text))
        .max()
        .unwrap_or(0)
}

/// All places, each after those that a way has before it, as far as that is possible.
fn order(lanes: &[Lane]) -> Vec<&str> {
    let mut rows: Vec<&str> = Vec::new();
    for lane in lanes {
        let mut next = 0;
        for place in &lane.places {
            match rows.iter().position(|row| row == place) {
                Some(row) => next = row + 1,
                None => {
                    rows.insert(next, place);
                    next += 1;
                }
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(result: &str, places: &str, mark: Option<(&str, &str)>) -> Lane {
        Lane {
            result: result.into(),
            is_failure: result != "no error",
            count: 2,
            places: places.split(' ').map(String::from).collect(),
            mark: mark.map(|(at, text)| (at.into(), text.into())),
        }
    }

    fn lanes() -> Vec<Lane> {
        vec![
            lane("no error", "+0x0 +0x10 +0x20 +0x30", None),
            lane(
                "ENOENT",
                "+0x0 +0x10 +0x50 +0x30",
                Some(("+0x10", "to +0x50 & on")),
            ),
            lane("EIO", "+0x0 +0x30 +0x20", None),
        ]
    }

    #[test]
    fn each_block_comes_after_those_before_it() {
        let lanes = lanes();
        assert_eq!(order(&lanes), ["+0x0", "+0x10", "+0x50", "+0x20", "+0x30"]);
        assert_eq!(order(&[]), [""; 0]);
    }

    #[test]
    fn an_image_has_the_lanes_the_blocks_and_the_mark() {
        let function = Lanes {
            function: "f".into(),
            lanes: lanes(),
            notes: vec![("+0x20".into(), "a.c:7".into())],
        };
        let text = image("path f", &[function]);
        assert_eq!(text.matches("<circle").count(), 4 + 4 + 3);
        assert_eq!(text.matches("r=\"7\"").count(), 1);
        for part in [
            ">no error<",
            ">2 calls<",
            ">a.c:7  +0x20<",
            ">to +0x50 &amp; on<",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // The way back of the last lane.
        assert_eq!(text.matches('C').count(), 1);
        assert!(!text.contains(">f<"));
    }

    #[test]
    fn several_functions_have_their_names() {
        let function = |name: &str| Lanes {
            function: name.into(),
            lanes: lanes(),
            notes: Vec::new(),
        };
        let text = image("path f,g", &[function("f"), function("g")]);
        assert!(text.contains(">f</text>") && text.contains(">g</text>"));
        assert!(image("path f", &[]).ends_with("</svg>\n"));
    }
}
