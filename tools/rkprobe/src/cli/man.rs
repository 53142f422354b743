// SPDX-License-Identifier: GPL-2.0

//! The man pages.

use std::{
    fs,
    io,
    path::Path, //
};

use clap::Command;

use crate::failure::{
    Failure,
    Result, //
};

use super::examples;

/// Writes the man page of each command that the help lists.
pub fn write(mut all: Command, directory: &Path) -> Result {
    all.build();
    let shown = all.get_subcommands().filter(|page| !page.is_hide_set());
    let commands: Vec<Command> = shown
        .filter(|page| page.get_name() != "help")
        .cloned()
        .collect();
    for page in [examples::show(all)].into_iter().chain(commands) {
        // The name of a subcommand is its own word. Its page has the name of the program in front.
        let name = match page.get_name() {
            "rkprobe" => "rkprobe".into(),
            name => format!("rkprobe-{name}"),
        };
        let path = directory.join(format!("{name}.8"));
        fs::write(&path, text(page, name)?)
            .map_err(|error| Failure::file(path.display(), &error))?;
    }
    Ok(())
}

/// The man page of a command. The usage, and the sections at the end of the help, are as there.
fn text(mut command: Command, name: String) -> io::Result<Vec<u8>> {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").lines().map(str::trim);
    let synopsis = section("SYNOPSIS", usage);
    let end = command.get_after_help().map(ToString::to_string);
    let blocks = end.iter().flat_map(|end| end.split("\n\n"));
    let blocks = blocks.filter_map(|block| block.split_once(":\n"));
    let sections: String = blocks
        .map(|(title, lines)| section(&title.to_uppercase(), lines.lines().map(str::trim)))
        .collect();
    let is_program = command.has_subcommands();
    let man = clap_mangen::Man::new(command).title(name).section("8");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    text.extend(synopsis.bytes());
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if is_program {
        man.render_subcommands_section(&mut text)?;
    }
    text.extend(sections.bytes());
    if is_program {
        man.render_version_section(&mut text)?;
    }
    Ok(text)
}

/// A section of lines that stay as they are.
fn section<'l>(title: &str, lines: impl Iterator<Item = &'l str>) -> String {
    let mut text = format!(".SH {title}\n.nf\n");
    for line in lines {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        text += &line.replace('\'', "\\(aq");
        text.push('\n');
    }
    text + ".fi\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        let mut all = super::super::command();
        all.build();
        let command = match name {
            "rkprobe" => &examples::show(all),
            name => all.find_subcommand(name).unwrap(),
        };
        String::from_utf8(text(command.clone(), name.into()).unwrap()).unwrap()
    }

    #[test]
    fn each_page_has_examples() {
        let mut all = super::super::command();
        all.build();
        let commands = all.get_subcommands().filter(|page| !page.is_hide_set());
        let names = commands
            .map(Command::get_name)
            .filter(|name| *name != "help");
        for name in names.chain(["rkprobe"]) {
            let page = page(name);
            let (_, examples) = page.split_once(".SH EXAMPLES\n.nf\nrkprobe ").unwrap();
            assert!(name == "rkprobe" || examples.starts_with(name), "{page}");
        }
    }

    #[test]
    fn the_synopsis_is_the_usage() {
        let synopsis = ".SH SYNOPSIS\n.nf\n\
            rkprobe lat [OPTIONS] FUNCTIONS [\\-\\- COMMAND...]\n\
            rkprobe lat [OPTIONS] STRUCT from FUNCTION until FUNCTION [\\-\\- COMMAND...]\n.fi\n";
        assert!(page("lat").contains(synopsis), "{}", page("lat"));
    }

    #[test]
    fn lines_stay_as_they_are() {
        assert_eq!(
            section("A", ["b 'c-d\\e'"].into_iter()),
            ".SH A\n.nf\nb \\(aqc\\-d\\ee\\(aq\n.fi\n"
        );
    }
}
