// SPDX-License-Identifier: GPL-2.0

//! A diagram as a file.

use std::fs;

use crate::{
    draw::{
        self,
        Bar, //
    },
    failure::{
        Failure,
        Result, //
    },
    rust_names, //
};

const ROW: usize = 22;
const TOP: usize = 44;
/// The least room for labels.
const LABEL: usize = 190;
const WIDTH: usize = 400;
/// The room for a number and the edges.
const REST: usize = 130;
/// The width of a character.
pub const CHARACTER: usize = 9;

/// Writes an image of the bars with a title to the file `path`.
pub fn write(path: &str, title: &str, rows: &[Bar]) -> Result {
    fs::write(path, bars(title, rows)).map_err(|error| Failure::file(path, &error))
}

/// An SVG image of the bars with a title. The longest label decides the width.
fn bars(title: &str, bars: &[Bar]) -> String {
    let highest = bars.iter().map(|bar| bar.value).max().unwrap_or(0).max(1);
    let height = TOP + bars.len() * ROW + 10;
    let longest = bars.iter().map(|bar| draw::width(&bar.label)).max();
    let label = (longest.unwrap_or(0) * CHARACTER + 20).max(LABEL);
    let all = label + WIDTH + REST;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{all}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"14\" y=\"26\" font-weight=\"bold\">{}</text>\n",
        escape(title)
    );
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + index * ROW;
        let length = u128::from(bar.value) * WIDTH as u128 / u128::from(highest);
        text += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{label}\" y=\"{y}\" width=\"{length}\" height=\"{}\" fill=\"#2b7a78\"/>\n\
             <text x=\"{}\" y=\"{}\">{}</text>\n",
            label - 10,
            y + 14,
            escape(&bar.label),
            ROW - 4,
            label as u128 + length + 8,
            y + 14,
            bar.value
        );
    }
    text + "</svg>\n"
}

/// A text inside of an element.
pub fn escape(text: &str) -> String {
    rust_names::shown(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_and_escapes() {
        let rows = [("<1 us", 10), ("b", 5)].map(|(label, value)| Bar {
            label: label.into(),
            value,
        });
        let text = bars("a & b", &rows);
        assert!(text.contains(">a &amp; b<"));
        assert!(text.contains(">&lt;1 us<"));
        assert!(text.contains("width=\"400\""));
        assert!(text.contains("width=\"200\""));
        assert!(text.contains("width=\"720\""));
        let long = Bar {
            label: "x".repeat(100),
            value: 1,
        };
        assert!(bars("a", &[long]).contains("width=\"1450\""));
    }
}
