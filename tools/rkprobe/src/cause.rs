// SPDX-License-Identifier: GPL-2.0

//! The cause of a call's error, and the part of a call that took most of its time.

use std::collections::HashMap;

use crate::{
    returns::{
        Returned,
        Returns, //
    },
    tree::{
        Call,
        Step, //
    }, //
};

/// Errors that a caller replaces, with the errors that replace them. C: `vfs_ioctl()`, `vfs_parse_fs_param()`,
/// `do_sys_name_to_handle()`, signals.
const REPLACED: [(u32, &[u32]); 8] = [
    // ENOIOCTLCMD: ENOTTY, EINVAL.
    (515, &[25, 22]),
    // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK: EINTR.
    (512, &[4]),
    (513, &[4]),
    (514, &[4]),
    (516, &[4]),
    // ENOPARAM: EINVAL.
    (519, &[22]),
    // ENOTSUPP: EOPNOTSUPP.
    (524, &[95]),
    // EOPENSTALE: ESTALE.
    (518, &[116]),
];

/// A function and the number of an error that it returned.
pub type Failed = (String, u32);

/// Why a call failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The number of the error that the root returned.
    pub error: u32,
    /// The steps through which the error went, from the root to the innermost function that returned it.
    pub path: Vec<usize>,
    /// The steps below it whose results are probably why, from its callee to the innermost one. They returned `false`,
    /// `NULL` or another error.
    pub guessed: Vec<usize>,
    /// Whether steps are missing, so that the error can come from a function below the innermost one.
    pub is_uncertain: bool,
}

impl Cause {
    /// The innermost function that returned the error.
    pub fn step(&self) -> usize {
        // The path has the root.
        self.path.last().copied().unwrap_or(0)
    }

    /// The innermost function that returned the error, and the error that it returned: its callers can have replaced it.
    pub fn failed(&self, call: &Call, returns: &Returns) -> Failed {
        let step = &call.steps[self.step()];
        let error = error(step, returns).unwrap_or(self.error);
        (step.function.clone(), error)
    }
}

/// The number of the error that a step returned.
pub fn error(step: &Step, returns: &Returns) -> Option<u32> {
    returns.of(&step.function).error(step.ret?)
}

/// Finds the cause of the root's error. `None` if the root returned no error.
///
/// `returns` knows the functions of the call.
pub fn find(call: &Call, returns: &Returns) -> Option<Cause> {
    let children = call.children();
    let error = error(call.root(), returns)?;
    let mut path = vec![0];
    let mut at = 0;
    while let Some(callee) = origin(call, returns, &children[at], error) {
        path.push(callee);
        at = callee;
    }
    let has_no_result = |step: &usize| call.steps[*step].ret.is_none();
    let is_uncertain = call.missing() > 0 || children[at].iter().any(has_no_result);
    let mut guessed = Vec::new();
    while let Some(callee) = guess(call, returns, &children[at]) {
        guessed.push(callee);
        at = callee;
    }
    Some(Cause {
        error,
        path,
        guessed,
        is_uncertain,
    })
}

/// The callee from which a step has its error: the last one that returned it, and did not get it as an argument. A loop
/// such as that of `path_lookupat()` passes an error to its next call, which only returns it.
fn origin(call: &Call, returns: &Returns, callees: &[usize], wanted: u32) -> Option<usize> {
    let is_replaced = |number: u32| {
        let mut all = REPLACED.iter();
        all.any(|(from, to)| *from == number && to.contains(&wanted))
    };
    let word = u64::from(wanted).wrapping_neg();
    let has_made = |step: &usize| !call.steps[*step].args.contains(&word);
    let last = |is_it: &dyn Fn(u32) -> bool| {
        let is_it = |step: &&usize| error(&call.steps[**step], returns).is_some_and(is_it);
        let mut all = callees.iter().rev().filter(is_it).copied().peekable();
        let last = all.peek().copied();
        all.find(has_made).or(last)
    };
    last(&|number| number == wanted).or_else(|| last(&is_replaced))
}

/// Whether `true` can be the bad answer of a function: such as `is_path_busy()`, and not `try_to_unlazy()`.
fn is_question(function: &str) -> bool {
    let mut words = function.split('_');
    words.any(|word| ["is", "has", "busy", "readonly", "pending", "dead", "empty"].contains(&word))
}

/// The callee whose result probably made a step fail. It is the last one that returned anything: after a failure, most
/// functions only call others that clean up, and these return nothing.
fn guess(call: &Call, returns: &Returns, callees: &[usize]) -> Option<usize> {
    let returned = |callee: &usize| {
        let step = &call.steps[*callee];
        (returns.of(&step.function), step.ret)
    };
    let mut callees = callees.iter().rev().copied();
    let last = callees.find(|callee| returned(callee).0 != Returned::Nothing)?;
    let step = &call.steps[last];
    let is_reason = match returned(&last) {
        (Returned::NoError(name), Some(word)) if name == "bool" || name == "_Bool" => {
            word as u8 == 0 || is_question(&step.function)
        }
        (Returned::Pointer, Some(0)) => true,
        (Returned::Unknown | Returned::NoError(_), _) | (_, None) => false,
        _ => error(step, returns).is_some(),
    };
    is_reason.then_some(last)
}

/// The functions, the root first, in which a call spent more time than in any others: by their own time, without
/// callees. Returns the steps of the first such path, and the sum of its times in ns.
pub fn slowest(call: &Call) -> (Vec<usize>, u64) {
    let parents = call.parents();
    // A path is the number of the path above it, and a function.
    let mut numbers: HashMap<(usize, &str), usize> = HashMap::new();
    let mut paths: Vec<(usize, u64)> = Vec::new();
    let mut path_of: Vec<usize> = Vec::new();
    let times = call.self_times();
    for (index, step) in call.steps.iter().enumerate() {
        let above = parents[index].map_or(usize::MAX, |parent| path_of[parent]);
        let number = *numbers
            .entry((above, &step.function))
            .or_insert(paths.len());
        if number == paths.len() {
            paths.push((index, 0));
        }
        paths[number].1 += times[index].unwrap_or(0);
        path_of.push(number);
    }
    let slowest = paths
        .iter()
        .reduce(|best, path| if path.1 > best.1 { path } else { best });
    slowest.map_or((vec![0], 0), |(index, ns)| (call.path(*index), *ns))
}

#[cfg(test)]
mod tests {
    use crate::tree::tests::call;

    use super::*;

    const BUSY: i64 = -16;
    const INVALID: i64 = -22;
    const NO_ENTRY: i64 = -2;

    fn returns() -> Returns {
        let no = |name: &str| Returned::NoError(name.into());
        Returns::of_functions(&[
            ("root", Returned::Word),
            ("int", Returned::Int),
            ("check", Returned::Int),
            ("pointer", Returned::Pointer),
            ("bool", no("bool")),
            ("is_busy", no("bool")),
            ("size", no("size_t")),
            ("void", Returned::Nothing),
        ])
    }

    /// The steps to the cause, and those of the guess.
    fn found(steps: &[(usize, &str, i64)]) -> Option<(Vec<usize>, Vec<usize>)> {
        let cause = find(&call(steps), &returns())?;
        assert!(!cause.is_uncertain);
        Some((cause.path, cause.guessed))
    }

    #[test]
    fn the_cause_is_the_innermost_function_with_the_error() {
        let half = i64::from(u32::MAX - 21);
        for (steps, expected) in [
            (&[(0, "root", 0), (1, "int", INVALID)][..], None),
            (&[(0, "root", INVALID)], Some((vec![0], vec![]))),
            // A number of 32 bits, then a pointer.
            (
                &[
                    (0, "root", INVALID),
                    (1, "int", half),
                    (2, "int", 0),
                    (2, "pointer", INVALID),
                    (3, "int", half),
                    (2, "void", INVALID),
                ],
                Some((vec![0, 1, 3, 4], vec![])),
            ),
            // The last attempt counts.
            (
                &[
                    (0, "root", NO_ENTRY),
                    (1, "int", -10),
                    (1, "int", NO_ENTRY),
                    (1, "pointer", NO_ENTRY),
                    (2, "size", NO_ENTRY),
                    (1, "int", 0),
                ],
                Some((vec![0, 3], vec![])),
            ),
            // An error of the kernel becomes one of the user.
            (
                &[(0, "root", -25), (1, "int", -515), (2, "int", -515)],
                Some((vec![0, 1, 2], vec![])),
            ),
        ] {
            assert_eq!(found(steps), expected, "{steps:?}");
        }
    }

    #[test]
    fn a_function_fails_with_its_own_error() {
        let failed = |steps| {
            let one = call(steps);
            let cause = find(&one, &returns()).unwrap();
            cause.failed(&one, &returns())
        };
        assert_eq!(
            failed(&[(0, "root", -25), (1, "int", -515)]),
            ("int".into(), 515)
        );
        assert_eq!(failed(&[(0, "root", -25)]), ("root".into(), 25));
    }

    #[test]
    fn a_function_that_gets_the_error_has_not_made_it() {
        let steps = [
            (0, "root", NO_ENTRY),
            (1, "int", 0),
            (1, "pointer", NO_ENTRY),
            (1, "int", NO_ENTRY),
        ];
        let mut one = call(&steps);
        one.steps[3].args[0] = NO_ENTRY as u64;
        assert_eq!(find(&one, &returns()).unwrap().path, [0, 2]);
        one.steps[2].ret = Some(0);
        assert_eq!(find(&one, &returns()).unwrap().path, [0, 3]);
    }

    #[test]
    fn other_results_are_guesses() {
        for (steps, guess) in [
            (
                &[(0, "root", -19), (1, "pointer", 0), (2, "pointer", 0)][..],
                &[1, 2][..],
            ),
            (
                &[(0, "root", BUSY), (1, "is_busy", 1), (1, "void", 7)],
                &[1],
            ),
            (&[(0, "root", BUSY), (1, "bool", 1)], &[]),
            (&[(0, "root", -13), (1, "bool", 0), (2, "int", -1)], &[1, 2]),
            (&[(0, "root", -14), (1, "check", INVALID)], &[1]),
            // A later call succeeded.
            (&[(0, "root", -14), (1, "bool", 0), (1, "int", 0)], &[]),
            (&[(0, "root", -14), (1, "pointer", 4096)], &[]),
            (&[(0, "root", -14), (1, "size", 0)], &[]),
            (&[(0, "root", -14), (1, "unknown", -14 << 32)], &[]),
        ] {
            let (path, guessed) = found(steps).unwrap();
            assert_eq!((&*path, &*guessed), (&[0][..], guess), "{steps:?}");
        }
    }

    #[test]
    fn missing_steps_make_a_cause_uncertain() {
        let steps = [(0, "root", BUSY), (1, "int", BUSY), (2, "int", 0)];
        let mut one = call(&steps);
        one.lost = 1;
        assert!(find(&one, &returns()).unwrap().is_uncertain);
        let mut one = call(&steps);
        one.steps[2].ret = None;
        let cause = find(&one, &returns()).unwrap();
        assert!(cause.is_uncertain);
        assert_eq!(cause.step(), 1);
    }

    #[test]
    fn equal_paths_share_their_time() {
        let mut call = call(&[
            (0, "root", 0),
            (1, "a", 0),
            (2, "wait", 0),
            (2, "wait", 0),
            (1, "b", 0),
            (1, "a", 0),
            (2, "wait", 0),
        ]);
        for (step, ns) in call
            .steps
            .iter_mut()
            .zip([1000, 250, 100, 100, 190, 110, 100])
        {
            step.ns = Some(ns);
        }
        // The root itself needs 450 ns.
        assert_eq!(slowest(&call), (vec![0], 450));
        call.steps[0].ns = Some(600);
        assert_eq!(slowest(&call), (vec![0, 1, 2], 300));
    }
}
