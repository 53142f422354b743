// SPDX-License-Identifier: GPL-2.0

//! The kernel's variables, for watchpoints on them.

use std::{
    fs,
    ops::Range,
    sync::OnceLock, //
};

use crate::rng::Rng;

/// The letters that `/proc/kallsyms` has for data and bss.
const SECTIONS: [&str; 4] = ["d", "D", "b", "B"];

#[derive(Default)]
struct Variables {
    /// In the order of `/proc/kallsyms`. Modules that come later are not among them.
    names: Vec<String>,
    /// Those of each CPU.
    per_cpu: Range<usize>,
}

impl Variables {
    fn read() -> Self {
        let mut variables = Self::default();
        let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        for line in text.lines() {
            let mut words = line.split_whitespace().skip(1);
            let (Some(section), Some(name)) = (words.next(), words.next()) else {
                continue;
            };
            let number = variables.names.len();
            match name {
                "__per_cpu_start" => variables.per_cpu.start = number,
                "__per_cpu_end" => variables.per_cpu.end = number,
                _ if !SECTIONS.contains(&section) => (),
                _ => variables.names.push(match words.next() {
                    Some(module) => format!("{}:{name}", module.trim_matches(['[', ']'])),
                    None => name.to_string(),
                }),
            }
        }
        variables
    }

    fn pick(&self, rng: &mut Rng) -> &str {
        let range = match rng.one_in(2) {
            true if !self.per_cpu.is_empty() => self.per_cpu.clone(),
            _ => 0..self.names.len(),
        };
        let number = range.start + rng.below(range.len().max(1));
        self.names.get(number).map_or("jiffies_64", |name| name)
    }
}

/// The first call reads them, which takes long. Children inherit them.
fn variables() -> &'static Variables {
    static VARIABLES: OnceLock<Variables> = OnceLock::new();
    VARIABLES.get_or_init(Variables::read)
}

pub fn prepare() {
    variables();
}

/// Memory as a watchpoint names it: any variable of the kernel, often with an offset.
pub fn watched(rng: &mut Rng) -> String {
    let name = variables().pick(rng);
    let len = rng.pick(&[1, 2, 4, 8]);
    let access = rng.pick(&["w", "w", "rw"]);
    match len * rng.below(32) * rng.below(2) {
        0 => format!("{access}@{name}:{len}"),
        offset => format!("{access}@{name}+{offset}:{len}"),
    }
}
