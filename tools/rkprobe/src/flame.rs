// SPDX-License-Identifier: GPL-2.0

//! Flame graphs of tables with stack traces.

use std::fs;

use inferno::flamegraph::{
    from_lines,
    Options, //
};

use crate::{
    failure::{
        Failure,
        Result, //
    },
    rust_names,
    svg, //
};

/// A stack trace with the number of its calls, or with their duration.
pub struct Stack<'a> {
    /// Its frames, such as `vfs_read+0x1/0x2 [MODULE]`, the innermost first.
    pub frames: Vec<&'a str>,
    /// The function that was called. It is the innermost frame.
    pub function: &'a str,
    /// The result of the calls, as a frame of its own.
    pub result: Option<&'a str>,
    pub value: u64,
}

impl Stack<'_> {
    /// The functions, the outermost first, and the value.
    fn line(&self) -> String {
        let name = |frame: &str| name(&rust_names::shown(frame));
        let mut names: Vec<_> = self.frames.iter().copied().rev().map(name).collect();
        let function = name(self.function);
        if names.last() != Some(&function) {
            names.push(function);
        }
        names.extend(self.result.map(String::from));
        format!("{} {}", names.join(";"), self.value)
    }
}

/// The frame without its offset.
fn name(frame: &str) -> String {
    match frame.split_once("+0x") {
        Some((function, rest)) => match rest.split_once(" [") {
            Some((_, module)) => format!("{function} [{module}"),
            None => function.into(),
        },
        None => frame.into(),
    }
}

/// Writes a flame graph with a title to the file `path`. `unit` is the unit of the values.
pub fn write(path: &str, title: &str, unit: &str, stacks: &[Stack<'_>]) -> Result {
    let lines: Vec<String> = stacks.iter().map(Stack::line).collect();
    if lines.is_empty() {
        return svg::write(path, title, &[]);
    }
    let mut options = Options::default();
    options.title = rust_names::shown(title).into();
    options.count_name = unit.into();
    let mut image = Vec::new();
    let made = from_lines(&mut options, lines.iter().map(String::as_str), &mut image);
    made.and_then(|()| fs::write(path, image))
        .map_err(|error| Failure::file(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_is_the_innermost_frame() {
        let mut stack = Stack {
            frames: vec!["f+0x0/0x9 [m]", "g.part.0+0x5/0x9", "h+0x1/0x2"],
            function: "f [m]",
            result: None,
            value: 7,
        };
        assert_eq!(stack.line(), "h;g.part.0;f [m] 7");
        stack.frames.remove(0);
        stack.result = Some("ENOENT");
        assert_eq!(stack.line(), "h;g.part.0;f [m];ENOENT 7");
    }
}
