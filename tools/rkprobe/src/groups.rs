// SPDX-License-Identifier: GPL-2.0

//! Equal calls of a call-tree event, as one call with a count.

use std::collections::HashMap;

use crate::{
    cause::{
        self,
        Cause, //
    },
    returns::Returns,
    tree::Call, //
};

/// Calls that are equal.
#[derive(Debug)]
pub struct Group {
    /// The first call.
    pub call: Call,
    /// Why this call failed.
    pub cause: Option<Cause>,
    pub count: u64,
    /// The longest duration of a call, in ns.
    pub longest: u64,
    /// The sum of the durations, in ns.
    pub total: u64,
    /// The time when the last call returned, in ns.
    pub last: u64,
}

/// What makes calls equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Likeness {
    /// The same functions in the same order, with the same errors.
    Tree,
    /// The same error by the same functions. Calls without an error are equal if their time went to the same functions.
    Cause,
}

/// Groups of equal calls, in the order of their first calls.
pub struct Groups {
    likeness: Likeness,
    numbers: HashMap<Vec<String>, usize>,
    pub all: Vec<Group>,
}

impl Groups {
    pub fn new(likeness: Likeness) -> Self {
        Self {
            likeness,
            numbers: HashMap::new(),
            all: Vec::new(),
        }
    }

    /// Adds a call, with the cause of its error. Returns the index of its group, and whether the group is new. `returns`
    /// knows the functions of the call.
    pub fn add(&mut self, call: Call, cause: Option<Cause>, returns: &Returns) -> (usize, bool) {
        let key = match self.likeness {
            Likeness::Tree => shape(&call, returns),
            Likeness::Cause => reason(&call, cause.as_ref()),
        };
        let number = *self.numbers.entry(key).or_insert(self.all.len());
        let ns = call.root().ns.unwrap_or(0);
        let end = call.end;
        let is_new = number == self.all.len();
        if is_new {
            self.all.push(Group {
                call,
                cause,
                count: 0,
                longest: 0,
                total: 0,
                last: 0,
            });
        }
        let group = &mut self.all[number];
        group.count += 1;
        group.longest = group.longest.max(ns);
        group.total += ns;
        group.last = end;
        (number, is_new)
    }
}

fn shape(call: &Call, returns: &Returns) -> Vec<String> {
    let steps = call.steps.iter();
    steps
        .map(|step| {
            let error = cause::error(step, returns).unwrap_or(0);
            format!("{} {} {error}", step.depth, step.function)
        })
        .collect()
}

fn reason(call: &Call, cause: Option<&Cause>) -> Vec<String> {
    let Some(cause) = cause else {
        let (path, _) = cause::slowest(call);
        let functions = path.into_iter().map(|step| &call.steps[step].function);
        return functions.cloned().collect();
    };
    let name = |step: &usize| call.steps[*step].function.clone();
    let path = cause.path.iter().map(name);
    let guessed = cause.guessed.iter().map(name);
    path.chain([cause.error.to_string()])
        .chain(guessed)
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::{
        returns::Returned,
        tree::tests::call, //
    };

    use super::*;

    fn add(groups: &mut Groups, call: Call, returns: &Returns) -> (usize, bool) {
        let cause = cause::find(&call, returns);
        groups.add(call, cause, returns)
    }

    #[test]
    fn equal_calls_are_counted() {
        let returns = Returns::of_functions(&[("f", Returned::Int), ("g", Returned::Int)]);
        let calls = [
            call(&[(0, "f", -2), (1, "g", -2)]),
            call(&[(0, "f", -2), (1, "g", 5), (1, "g", -2)]),
            call(&[(0, "f", -2), (1, "g", -2)]),
            call(&[(0, "f", -2), (1, "g", -5)]),
            call(&[(0, "f", 0), (1, "g", 6)]),
            call(&[(0, "f", 0), (1, "g", 7)]),
        ];
        for (likeness, expected) in [
            (Likeness::Tree, &[0, 1, 0, 2, 3, 3]),
            (Likeness::Cause, &[0, 0, 0, 1, 2, 2]),
        ] {
            let mut groups = Groups::new(likeness);
            let numbers = calls.clone().map(|call| add(&mut groups, call, &returns).0);
            assert_eq!(numbers, *expected, "{likeness:?}");
            let counts: u64 = groups.all.iter().map(|group| group.count).sum();
            assert_eq!(counts, 6);
        }
        let mut groups = Groups::new(Likeness::Tree);
        assert_eq!(add(&mut groups, calls[0].clone(), &returns), (0, true));
        assert_eq!(add(&mut groups, calls[2].clone(), &returns), (0, false));
        let group = &groups.all[0];
        assert_eq!(
            (group.count, group.longest, group.total),
            (2, 10_000, 20_000)
        );
        assert_eq!(group.last, 50_000);
    }
}
