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
    diagrams(&[bars], screen).concat()
}

/// The lines of each diagram. Their bars begin in the same column, and the longest bar of each has the same length.
pub fn diagrams<B: AsRef<[Bar]>>(diagrams: &[B], screen: Screen) -> Vec<String> {
    let all = || diagrams.iter().flat_map(AsRef::as_ref);
    let value_width = all()
        .map(|bar| bar.value.to_string().len())
        .max()
        .unwrap_or(0);
    let mut label_width = all().map(|bar| width(&bar.label)).max().unwrap_or(0);
    let mut room = 0;
    if let Some(columns) = screen.columns {
        let others = value_width + 2;
        label_width = label_width.min(columns.saturating_sub(others).max(1));
        room = columns.saturating_sub(label_width + others + 1);
        if room < MIN_BAR {
            room = 0;
        }
    }
    let lines = |bars: &B| lines(bars.as_ref(), label_width, value_width, room, screen);
    diagrams.iter().map(lines).collect()
}

/// The lines of a diagram, with columns of these widths.
fn lines(
    bars: &[Bar],
    label_width: usize,
    value_width: usize,
    room: usize,
    screen: Screen,
) -> String {
    let highest = bars.iter().map(|bar| bar.value).max().unwrap_or(0).max(1);
    let mut text = String::new();
    for bar in bars {
        let label = shorten(&bar.label, label_width);
        let label = pad(&label, label_width);
        let line = format!("{label}  {:>value_width$}", bar.value);
        text += &line;
        if room > 0 && bar.value > 0 {
            let bar = blocks(bar.value, highest, room, screen.has_blocks);
            text += &format!(" {}", colored(&bar, screen));
        }
        text.push('\n');
    }
    text
}

/// A sentence in one line, or, if the terminal is not wide enough, in a line for each part. Semicolons end parts, and
/// commas those of a part that is still too wide.
pub fn sentence(text: &str, screen: Screen) -> String {
    const INDENT: &str = "  ";

    let columns = screen.columns.unwrap_or(usize::MAX);
    if width(text) <= columns {
        return format!("{text}\n");
    }
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive("; ") {
        let mut is_first = true;
        for words in part.split_inclusive(", ") {
            match lines.last_mut() {
                Some(line) if !is_first && width(line) + width(words.trim_end()) <= columns => {
                    *line += words;
                }
                Some(_) => lines.push(format!("{INDENT}{words}")),
                None => lines.push(words.into()),
            }
            is_first = false;
        }
    }
    let lines = lines.iter();
    lines.flat_map(|line| [line.trim_end(), "\n"]).collect()
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
    let mark = colored(mark, screen);
    format!("{}{mark}{}", line.repeat(place), line.repeat(last - place))
}

/// A text in the colour of bars, if they have one.
pub fn colored(text: &str, screen: Screen) -> String {
    match screen.has_color {
        true => format!("{COLOR}{text}{NORMAL}"),
        false => text.into(),
    }
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
    fn diagrams_share_their_columns() {
        let bar = |label: &str, value| Bar {
            label: label.into(),
            value,
        };
        let all = [vec![bar("a", 100)], vec![bar("bb", 5), bar("b", 1)]];
        assert_eq!(
            diagrams(&all, screen(Some(18), false)),
            ["a   100 ##########\n", "bb    5 ##########\nb     1 ##\n"]
        );
    }

    #[test]
    fn a_sentence_has_lines_of_whole_parts() {
        let text = "f: 3 calls, average 52.9 us, longest 80.3 us; by buckets, half within 65.5 us, 99 % within 131 us";
        for (columns, expected) in [
            (None, text),
            (Some(text.len()), text),
            (
                Some(80),
                "f: 3 calls, average 52.9 us, longest 80.3 us;\n  \
                 by buckets, half within 65.5 us, 99 % within 131 us",
            ),
            (
                Some(30),
                "f: 3 calls, average 52.9 us,\n  longest 80.3 us;\n  by buckets,\n  half within 65.5 us,\n  \
                 99 % within 131 us",
            ),
        ] {
            let screen = screen(columns, false);
            assert_eq!(sentence(text, screen), format!("{expected}\n"));
        }
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
