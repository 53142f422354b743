// SPDX-License-Identifier: GPL-2.0

//! A call as an outline: one line for each step, below that of its caller.

use std::collections::{
    BTreeSet,
    HashMap, //
};

use crate::{
    cause::Cause,
    draw::{
        shorten,
        Screen, //
    },
    duration,
    rust_names,
    tree::Call,
    words::Signatures, //
};

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[33m";
const GREY: &str = "\x1b[90m";
const NORMAL: &str = "\x1b[0m";

/// The least room for arguments.
const MIN_ARGUMENTS: usize = 12;
/// The width of a duration.
const DURATION: usize = 8;

/// A note at the end of a step's line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    Cause,
    /// The cause, if the steps that are missing have no other.
    PerhapsCause,
    Guess,
    Slowest,
}

impl Mark {
    fn text(self) -> &'static str {
        match self {
            Self::Cause => "  <- cause",
            Self::PerhapsCause => "  <- cause, or a step that is missing",
            Self::Guess => "  <- a guess why",
            Self::Slowest => "  <- most time",
        }
    }

    fn color(self) -> &'static str {
        match self {
            Self::Cause | Self::PerhapsCause | Self::Slowest => RED,
            Self::Guess => YELLOW,
        }
    }
}

/// What is shown of a call.
#[derive(Default)]
pub struct View {
    /// The steps to show. `None` for all of them.
    pub shown: Option<BTreeSet<usize>>,
    pub marks: HashMap<usize, Mark>,
    /// The arguments of the root, if they are more than words.
    pub root: Option<String>,
    /// Whether each line begins with the durations of the step, with and without its callees.
    pub has_times: bool,
    /// Where the function of the cause returned the error, such as `at FILE:LINE`.
    pub place: Option<String>,
}

impl View {
    /// The path to the cause of an error, and the guess why.
    pub fn of_cause(cause: &Cause) -> Self {
        let mark = match cause.is_uncertain {
            true => Mark::PerhapsCause,
            false => Mark::Cause,
        };
        let guessed = cause.guessed.iter().map(|step| (*step, Mark::Guess));
        Self {
            shown: Some(cause.path.iter().chain(&cause.guessed).copied().collect()),
            marks: guessed.chain([(cause.step(), mark)]).collect(),
            ..Self::default()
        }
    }

    /// The place of a step, if it is the cause.
    fn place_of(&self, step: usize) -> Option<String> {
        let mark = self.marks.get(&step)?;
        let is_cause = matches!(mark, Mark::Cause | Mark::PerhapsCause);
        self.place.clone().filter(|_| is_cause)
    }
}

/// The parts of a line.
struct Line {
    times: String,
    /// The branches of the tree.
    lead: String,
    name: String,
    arguments: String,
    result: String,
    mark: Option<Mark>,
    /// The place, which follows the mark.
    place: Option<String>,
}

impl Line {
    /// The line. It fits the terminal, if shorter arguments make it so.
    fn text(&self, screen: Screen) -> String {
        let place = self.place.as_ref();
        let place = place.map_or(String::new(), |place| format!(", {place}"));
        let mark = self.mark.map_or("", Mark::text).to_string() + &place;
        let width = |text: &str| text.chars().count();
        let others = [&self.times, &self.lead, &self.name, &self.result, &mark];
        let others: usize = others.iter().map(|part| width(part)).sum::<usize>() + "()".len();
        let room = screen.columns.map(|columns| columns.saturating_sub(others));
        let room = room.map_or(usize::MAX, |room| room.max(MIN_ARGUMENTS));
        let arguments = shorten(&self.arguments, room);
        let has_color = screen.has_color && screen.columns.is_some();
        let paint = |color: &str, text: &str| match has_color && !text.is_empty() {
            true => format!("{color}{text}{NORMAL}"),
            false => text.into(),
        };
        let name = self
            .mark
            .map_or(self.name.clone(), |mark| paint(mark.color(), &self.name));
        let mark = self
            .mark
            .map_or(String::new(), |kind| paint(kind.color(), &mark));
        format!(
            "{}{}{name}({arguments}){}{mark}\n",
            paint(GREY, &self.times),
            paint(GREY, &self.lead),
            self.result
        )
    }
}

/// The branches of the tree that lead to a step, for which it is known whether each of its callers, from the outermost
/// one, has more callees.
fn lead(has_more: &[bool], has_blocks: bool) -> String {
    let (skip, pass, branch, last) = match has_blocks {
        true => ("  ", "\u{2502} ", "\u{251c}\u{2500}", "\u{2514}\u{2500}"),
        false => ("  ", "| ", "|-", "`-"),
    };
    let Some((own, above)) = has_more.split_last() else {
        return String::new();
    };
    let above = above.iter().map(|more| if *more { pass } else { skip });
    above.collect::<String>() + if *own { branch } else { last }
}

/// The lines of a call.
pub fn text(call: &Call, signatures: &Signatures, view: &View, screen: Screen) -> String {
    let parents = call.parents();
    let self_times = call.self_times();
    let is_shown = |step: &usize| view.shown.as_ref().is_none_or(|shown| shown.contains(step));
    let shown: Vec<usize> = (0..call.steps.len()).filter(is_shown).collect();
    // The nearest caller that is shown.
    let caller = |step: usize| {
        let mut at = parents[step];
        while at.is_some_and(|at| !is_shown(&at)) {
            at = at.and_then(|at| parents[at]);
        }
        at
    };
    let callers: HashMap<usize, Option<usize>> =
        shown.iter().map(|step| (*step, caller(*step))).collect();
    let mut last_of: HashMap<Option<usize>, usize> = HashMap::new();
    for step in &shown {
        last_of.insert(callers[step], *step);
    }
    let mut leads: HashMap<usize, Vec<bool>> = HashMap::new();
    let mut text = String::new();
    if view.has_times {
        text += &format!("{:>DURATION$}  {:>DURATION$}\n", "total", "self");
    }
    for index in shown {
        let step = &call.steps[index];
        let caller = callers[&index];
        let has_more = match caller {
            Some(of) => {
                let mut more = leads.get(&of).cloned().unwrap_or_default();
                more.push(last_of[&caller] != index);
                more
            }
            None => Vec::new(),
        };
        let show = |ns: Option<u64>| ns.map_or("?".into(), duration::show);
        let times = match view.has_times {
            true => format!(
                "{:>DURATION$}  {:>DURATION$}  ",
                show(step.ns),
                show(self_times[index])
            ),
            false => "  ".into(),
        };
        let result = match (step.ret, signatures.result(step)) {
            (None, _) => " did not return".into(),
            (_, Some(result)) => format!(" = {result}"),
            (_, None) => String::new(),
        };
        let line = Line {
            times,
            lead: lead(&has_more, screen.has_blocks),
            name: rust_names::shown(&step.function).into(),
            arguments: match &view.root {
                Some(arguments) if index == 0 => arguments.clone(),
                _ => signatures.arguments(step),
            },
            result,
            mark: view.marks.get(&index).copied(),
            place: view.place_of(index),
        };
        text += &line.text(screen);
        leads.insert(index, has_more);
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::tree::tests::call;

    use super::*;

    const PLAIN: Screen = Screen {
        columns: None,
        has_color: true,
        has_blocks: false,
    };

    fn example() -> Call {
        call(&[
            (0, "root", -22),
            (1, "a", 0),
            (2, "b", 16),
            (2, "c [m]", 0),
            (1, "d", -22),
            (2, "e", 0),
        ])
    }

    #[test]
    fn a_step_is_below_its_caller() {
        let view = View {
            has_times: true,
            ..View::default()
        };
        let mut call = example();
        (call.steps[5].ns, call.steps[5].ret) = (None, None);
        assert_eq!(
            text(&call, &Signatures::default(), &view, PLAIN),
            [
                "   total      self",
                " 10.0 us      0 ns  root(...) = -EINVAL",
                " 9.00 us      0 ns  |-a(...) = 0x0",
                " 8.00 us   8.00 us  | |-b(...) = 0x10",
                " 8.00 us   8.00 us  | `-c [m](...) = 0x0",
                " 9.00 us   9.00 us  `-d(...) = -EINVAL",
                "       ?         ?    `-e(...) did not return",
                "",
            ]
            .join("\n")
        );
    }

    #[test]
    fn the_steps_to_the_cause_are_marked() {
        let call = example();
        let cause = Cause {
            error: 22,
            path: vec![0, 4],
            guessed: vec![5],
            is_uncertain: false,
        };
        let mut view = View::of_cause(&cause);
        assert_eq!(
            text(&call, &Signatures::default(), &view, PLAIN),
            "  root(...) = -EINVAL\n  `-d(...) = -EINVAL  <- cause\n    `-e(...) = 0x0  <- a guess why\n"
        );
        view.place = Some("at a.c:5".into());
        assert!(text(&call, &Signatures::default(), &view, PLAIN)
            .contains("d(...) = -EINVAL  <- cause, at a.c:5\n"));
        // A caller that is not shown.
        view.shown = Some([0, 2, 5].into());
        let screen = Screen {
            has_blocks: true,
            ..PLAIN
        };
        assert_eq!(
            text(&call, &Signatures::default(), &view, screen),
            "  root(...) = -EINVAL\n  \u{251c}\u{2500}b(...) = 0x10\n  \u{2514}\u{2500}e(...) = 0x0  <- a guess why\n"
        );
    }

    #[test]
    fn arguments_make_room_on_a_terminal() {
        let line = Line {
            times: String::new(),
            lead: "`-".into(),
            name: "f".into(),
            arguments: "name=\"a long name\", n=5".into(),
            result: " = 0".into(),
            mark: Some(Mark::Cause),
            place: None,
        };
        let mut screen = Screen {
            columns: Some(40),
            has_color: false,
            ..PLAIN
        };
        assert_eq!(
            line.text(screen),
            "`-f(name=\"a long name\", .) = 0  <- cause\n"
        );
        screen.columns = Some(5);
        assert_eq!(line.text(screen), "`-f(name=\"a lon.) = 0  <- cause\n");
        screen.has_color = true;
        assert!(line.text(screen).contains("\x1b[1;31mf\x1b[0m("));
        screen.columns = None;
        assert!(!line.text(screen).contains('\x1b'));
    }
}
