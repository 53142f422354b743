// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe exits`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::exits,
    context::Context,
    failure::Result, //
};

use super::options::{
    source,
    text,
    word, //
};

/// The words of the answer. Documentation/trace/kretinsn.rst has them, too.
const WORDS: &str = "\
Exits:
  ret                    A return instruction
  return thunk           A jump to the kernel's replacement for a return instruction
  tail call -> SYMBOL    A jump to another function, or to the function's own start
  conditional tail call  A tail call by a conditional branch
  indirect tail call     A jump to an address in a register or in memory
  far return             iret, sysret and the like
  falls through          The code continues past the end of the function
  no return              A call is the last instruction: the called function does not return

Verdicts:
  returns                             Calls return at return instructions only, which %retinsn can probe
  leaves by a tail call; use %return  %retinsn would miss the calls that leave there
  never returns                       No exit leads back to the caller
  not understood                      The function cannot be decoded";

/// The command and its options.
pub fn options() -> Command {
    Command::new("exits")
        .about("Where does a function leave?")
        .arg(word(
            "FUNCTION",
            "A function of the kernel, or MODULE:FUNCTION",
        ))
        .arg(source())
        .after_help(WORDS)
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    exits::run(
        context,
        text(matches, "FUNCTION"),
        matches.get_flag("source"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_the_words_of_the_document() {
        let document = include_str!("../../../../Documentation/trace/kretinsn.rst");
        let table = document.split("\n===========================  ").nth(1);
        let rows = table.unwrap().lines();
        let rows = rows.filter_map(|line| line.strip_prefix("``"));
        let words: Vec<&str> = rows.filter_map(|row| row.split("``  ").next()).collect();
        assert!(words.contains(&"no return"), "{words:?}");
        for word in words {
            let word = word.replace("SYM", "SYMBOL");
            assert!(WORDS.contains(&format!("\n  {word}  ")), "{word}");
        }
    }
}
