// SPDX-License-Identifier: GPL-2.0

//! A call with its steps as JSON.

use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    cause::{
        self,
        Cause, //
    },
    errno,
    tree::Call,
    values::Members,
    words::Signatures, //
};

/// A step in JSON.
#[derive(Serialize)]
struct StepLine<'a> {
    function: &'a str,
    depth: usize,
    enter_ns: u64,
    ns: Option<u64>,
    self_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ret: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Members>,
}

/// A cause in JSON.
#[derive(Serialize)]
struct CauseLine<'a> {
    error: String,
    /// The index of the step.
    step: usize,
    function: &'a str,
    /// Whether steps are missing that can be the cause.
    uncertain: bool,
    /// The functions below it whose results are probably why, with their steps.
    guess: Vec<(usize, &'a str)>,
}

/// A call in JSON.
#[derive(Serialize)]
pub struct CallLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    syscall: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<CauseLine<'a>>,
    steps: Vec<StepLine<'a>>,
    lost: u64,
    unread: u64,
}

/// A call, with the cause of its error. `syscall` is the system call with its arguments, and `root` are the arguments of
/// the root if the event has recorded them.
pub fn line<'c>(
    call: &'c Call,
    cause: Option<&Cause>,
    signatures: &Signatures,
    syscall: Option<String>,
    mut root: Option<Members>,
) -> CallLine<'c> {
    let returns = &signatures.returns;
    let name = |number: u32| errno::name(number.into());
    let function = |step: usize| &*call.steps[step].function;
    let cause = cause.map(|cause| {
        let guessed = cause.guessed.iter();
        CauseLine {
            error: name(cause.error),
            step: cause.step(),
            function: function(cause.step()),
            uncertain: cause.is_uncertain,
            guess: guessed.map(|step| (*step, function(*step))).collect(),
        }
    });
    let steps = call.steps.iter().zip(call.self_times());
    let steps = steps.map(|(step, self_ns)| StepLine {
        function: &step.function,
        depth: step.depth,
        enter_ns: step.enter,
        ns: step.ns,
        self_ns,
        ret: signatures.result_json(step),
        error: cause::error(step, returns).map(name),
        // The root is the first step.
        arguments: root.take().or_else(|| signatures.arguments_json(step)),
    });
    CallLine {
        syscall,
        cause,
        steps: steps.collect(),
        lost: call.lost,
        unread: call.unread,
    }
}

#[cfg(test)]
mod tests {
    use crate::tree::tests::call;

    use super::*;

    #[test]
    fn a_call_has_its_steps_and_its_cause() {
        let mut call = call(&[(0, "f", -2), (1, "g", -2)]);
        call.lost = 3;
        let signatures = Signatures::default();
        let cause = cause::find(&call, &signatures.returns);
        let root = [("name".into(), "a".into())].into_iter().collect();
        let syscall = Some("open()".into());
        let line = line(&call, cause.as_ref(), &signatures, syscall, Some(root));
        let json: Json = serde_json::to_value(line).unwrap();
        assert_eq!(json["syscall"], "open()");
        let cause = serde_json::json!({
            "error": "ENOENT", "step": 1, "function": "g", "uncertain": true, "guess": []
        });
        assert_eq!(json["cause"], cause);
        let step = serde_json::json!({
            "function": "g", "depth": 1, "enter_ns": 10, "ns": 9000, "self_ns": 9000,
            "ret": "0xfffffffffffffffe", "error": "ENOENT"
        });
        assert_eq!(json["steps"][1], step);
        assert_eq!(
            json["steps"][0]["arguments"],
            serde_json::json!({"name": "a"})
        );
        assert_eq!((&json["lost"], &json["unread"]), (&3.into(), &0.into()));
    }
}
