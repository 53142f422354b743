// SPDX-License-Identifier: GPL-2.0

//! `rkprobe fails PATTERN`: which functions return errors, which errors, how often, and to whom?

use crate::{
    commands::lat::dropped,
    context::Context,
    errno,
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
    probes,
    returns::Returns, //
};

/// The lowest number that is an error. C: `MAX_ERRNO`.
const MIN_ERROR: i32 = -4095;

/// An error of a function.
struct Failed {
    function: String,
    error: String,
    comm: String,
    count: u64,
}

/// The positive number of an error. The kernel prints a negative key as an unsigned number of 64 bits.
fn error_number(key: &str) -> u32 {
    let value: i128 = key.parse().unwrap_or(0);
    (value as i32).unsigned_abs()
}

/// Leaves out functions that return nothing.
fn leave_out_void(hist: &mut Hist, returns: &mut Returns) {
    returns.look_up(hist.rows.iter().map(|row| hist::symbol(&row.keys[0])));
    hist.rows
        .retain(|row| !returns.is_void(hist::symbol(&row.keys[0])));
}

/// The errors, the most frequent first.
fn errors(hist: &Hist) -> Vec<Failed> {
    let mut errors: Vec<Failed> = hist
        .rows
        .iter()
        .map(|row| {
            let number = error_number(&row.keys[1]);
            Failed {
                function: hist::symbol(&row.keys[0]).into(),
                error: errno::name(number.into()).into(),
                comm: row.keys[2].clone(),
                count: row.hits,
            }
        })
        .collect();
    errors.sort_by(|a, b| {
        b.count
            .cmp(&a.count)
            .then_with(|| (&a.function, &a.error).cmp(&(&b.function, &b.error)))
    });
    errors
}

fn table(pattern: &str, hist: &Hist) -> String {
    let errors = errors(hist);
    if errors.is_empty() {
        return format!("{pattern}: 0 errors\n");
    }
    let width = |text: fn(&Failed) -> &str| {
        errors
            .iter()
            .map(|failed| text(failed).len())
            .max()
            .unwrap_or(0)
    };
    let (functions, names) = (
        width(|failed| &failed.function),
        width(|failed| &failed.error),
    );
    let mut text = String::new();
    for failed in &errors {
        text += &format!(
            "{:>8}  {:functions$}  {:names$}  {}\n",
            failed.count, failed.function, failed.error, failed.comm
        );
    }
    text + &dropped(hist)
}

/// Runs the command.
///
/// The error is in the lower half of the register, also for functions that return a `long` or a pointer.
pub fn run(context: &Context, pattern: &str) -> Result {
    let mut returns = Returns::default();
    if !probes::is_pattern(pattern) {
        probes::check_function(pattern)?;
        returns.look_up([pattern].into_iter());
        if returns.is_void(pattern) {
            return Err(Failure::new(format!(
                "{pattern} returns nothing, so no error either"
            )));
        }
    }
    let command =
        |group: &str| format!("f:{group}/fails {pattern}%return error=$retval:s32 comm=$comm");
    probes::check_syntax(&command("rkprobe"))?;
    let instance = Instance::create(&context.tracefs)?;
    probes::define(&context.tracefs, &[command(instance.group())])?;
    let conditions = [format!("error >= {MIN_ERROR}"), "error < 0".into()];
    let trigger = format!(
        "hist:keys=__probe_func.sym,error,comm:size=8192 if {}",
        context.filter(&conditions)
    );
    let file = instance.event_file("fails", "trigger");
    context
        .tracefs
        .write(&file, &trigger)
        .map_err(|error| Failure::file(&file, &error))?;
    let mut read = || -> Result<Hist> {
        let text = context
            .tracefs
            .read(&instance.event_file("fails", "hist"))?;
        let mut hist = hist::parse(&text, &["__probe_func", "error", "comm"], None);
        leave_out_void(&mut hist, &mut returns);
        Ok(hist)
    };
    context.watch(|| Ok(table(pattern, &read()?)))?;
    if context.tracefs.is_dry() {
        return Ok(());
    }
    let hist = read()?;
    if !context.is_json {
        return context.print(&table(pattern, &hist));
    }
    let rows = errors(&hist).into_iter().map(|failed| {
        Object::new()
            .string("function", &failed.function)
            .string("error", &failed.error)
            .string("comm", &failed.comm)
            .number("count", failed.count)
            .end()
    });
    let answer = Object::new()
        .raw("errors", &json::array(rows))
        .number("dropped", hist.dropped);
    context.print(&(answer.end() + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_errors_and_sorts_by_count() {
        let text =
            "{ __probe_func: [ffff] b, error: 18446744073709551614, comm: cat   } hitcount: 1\n\
            { __probe_func: [ffff] a, error: -13, comm: a, b } hitcount: 20\n";
        let hist = hist::parse(text, &["__probe_func", "error", "comm"], None);
        assert_eq!(
            table("x", &hist),
            "      20  a  EACCES  a, b\n       1  b  ENOENT  cat\n"
        );
        assert_eq!(table("x", &Hist::default()), "x: 0 errors\n");
    }
}
