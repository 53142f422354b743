// SPDX-License-Identifier: GPL-2.0

//! `rkprobe count PATTERN`: which functions are called how often? The kernel counts by function.

use crate::{
    commands::lat::dropped,
    context::Context,
    draw::{
        self,
        Bar, //
    },
    failure::{
        Failure,
        Result, //
    },
    hist::{
        self,
        Hist, //
    },
    instance::Instance,
    json::{
        self,
        Object, //
    },
    probes, //
};

/// The functions with the most calls first, and names in order where calls are equal.
fn functions(hist: &Hist) -> Vec<Bar> {
    let mut bars: Vec<Bar> = hist
        .rows
        .iter()
        .map(|row| Bar {
            label: hist::symbol(&row.keys[0]).into(),
            value: row.hits,
        })
        .collect();
    bars.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.label.cmp(&b.label)));
    bars
}

fn picture(context: &Context, pattern: &str, hist: &Hist) -> String {
    let bars = functions(hist);
    if bars.is_empty() {
        return format!("{pattern}: 0 calls\n");
    }
    draw::bars(&bars, context.screen) + &dropped(hist)
}

/// Runs the command.
pub fn run(context: &Context, pattern: &str) -> Result {
    if !probes::is_pattern(pattern) {
        probes::check_function(pattern)?;
    }
    let command = |group: &str| format!("f:{group}/count {pattern}");
    probes::check_syntax(&command("rkprobe"))?;
    let instance = Instance::create(&context.tracefs)?;
    probes::define(&context.tracefs, &[command(instance.group())])?;
    let trigger = format!(
        "hist:keys=__probe_ip.sym:size=8192 if {}",
        context.filter(&[])
    );
    let file = instance.event_file("count", "trigger");
    context
        .tracefs
        .write(&file, &trigger)
        .map_err(|error| Failure::file(&file, &error))?;
    let read = || -> Result<Hist> {
        let text = context
            .tracefs
            .read(&instance.event_file("count", "hist"))?;
        Ok(hist::parse(&text, &["__probe_ip"], None))
    };
    context.watch(|| Ok(picture(context, pattern, &read()?)))?;
    if context.tracefs.is_dry() {
        return Ok(());
    }
    let hist = read()?;
    if !context.is_json {
        return context.print(&picture(context, pattern, &hist));
    }
    let functions = functions(&hist).into_iter().map(|bar| {
        Object::new()
            .string("function", &bar.label)
            .number("calls", bar.value)
            .end()
    });
    let answer = Object::new()
        .raw("functions", &json::array(functions))
        .number("dropped", hist.dropped);
    context.print(&(answer.end() + "\n"))
}
