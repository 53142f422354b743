// SPDX-License-Identifier: GPL-2.0

//! `rkprobe exits FUNCTION`: where does it leave?

use crate::{
    context::Context,
    failure::{
        Failure,
        Result, //
    },
    json::{
        self,
        Object, //
    },
    probes,
    sys, //
};

const FILE: &str = "rkprobe_exits";

/// Runs the command.
pub fn run(context: &Context, function: &str) -> Result {
    probes::check_function(function)?;
    let tracefs = &context.tracefs;
    if !tracefs.is_dry() && !tracefs.path(FILE).exists() {
        return Err(Failure::new(
            "the module has no exit analysis: build it with CONFIG_RKPROBE_KRETINSN=y",
        ));
    }
    // The file has the answer for the function that was written last. So one run asks after the other.
    let lock = match tracefs.open(FILE) {
        Ok(file) => Some(file),
        Err(_) if tracefs.is_dry() => None,
        Err(error) => return Err(Failure::file(FILE, &error)),
    };
    if let Some(file) = &lock {
        sys::lock(file).map_err(|error| Failure::file(FILE, &error))?;
    }
    tracefs
        .write(FILE, function)
        .map_err(|error| Failure::file(function, &error))?;
    if tracefs.is_dry() {
        return Ok(());
    }
    let text = tracefs.read(FILE)?;
    if !context.is_json {
        return context.print(&text);
    }
    let exits = text
        .lines()
        .filter(|line| !line.starts_with("verdict: "))
        .filter_map(|line| line.split_once(' '))
        .map(|(place, kind)| {
            Object::new()
                .string("place", place)
                .string("kind", kind)
                .end()
        });
    let verdict = text
        .lines()
        .find_map(|line| line.strip_prefix("verdict: "))
        .unwrap_or("");
    let answer = Object::new()
        .string("function", function)
        .raw("exits", &json::array(exits))
        .string("verdict", verdict);
    context.print(&(answer.end() + "\n"))
}
