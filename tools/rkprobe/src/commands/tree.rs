// SPDX-License-Identifier: GPL-2.0

//! `rkprobe tree ROOT [FUNCTIONS]`: everything below the calls of a function.

use crate::{
    context::Context,
    duration,
    failure::Result,
    trees::{
        self,
        Answer,
        Question, //
    }, //
};

/// The end of the answer: the trees of several calls.
fn end(answer: &mut Answer<'_>, root: &str) -> String {
    let groups = &answer.groups.all;
    if groups.is_empty() {
        return format!("{root}: 0 calls\n");
    }
    let mut text = String::new();
    for group in groups.iter().filter(|group| group.count > 1) {
        let call = &group.call;
        text += &format!(
            "{} calls are equal to that of {}-{} with {} steps: {} in all, at most {}\n",
            group.count,
            call.comm,
            call.tid,
            call.steps.len() - 1,
            duration::show(group.total),
            duration::show(group.longest),
        );
    }
    text
}

/// Runs the command.
pub fn run(context: &Context, question: &Question<'_>) -> Result {
    trees::run(context, question, |answer| Ok(end(answer, question.root)))
}
