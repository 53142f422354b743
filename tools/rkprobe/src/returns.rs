// SPDX-License-Identifier: GPL-2.0

//! Which functions return nothing, by the kernel's BTF.
//!
//! After such a function, the register of the return value contains anything.

use std::collections::HashMap;

use probe::btf::Btf;

use crate::btf;

/// What BTF says about functions. The answers are kept.
#[derive(Default)]
pub struct Returns {
    kernel: Vec<u8>,
    is_void: HashMap<String, bool>,
}

impl Returns {
    /// Looks up functions, `NAME` or `NAME [MODULE]`. Functions that BTF does not describe return something.
    pub fn look_up<'s>(&mut self, symbols: impl Iterator<Item = &'s str>) {
        let new: Vec<&str> = symbols
            .filter(|symbol| !self.is_void.contains_key(*symbol))
            .collect();
        if new.is_empty() {
            return;
        }
        if self.kernel.is_empty() {
            self.kernel = btf::read("vmlinux");
        }
        let mut index = Vec::new();
        let kernel = btf::parse(&self.kernel, None, &mut index);
        for symbol in new {
            let is_void = kernel
                .as_ref()
                .is_some_and(|kernel| is_void(kernel, symbol));
            self.is_void.insert(symbol.into(), is_void);
        }
    }

    /// Whether a function that was looked up returns nothing.
    pub fn is_void(&self, symbol: &str) -> bool {
        self.is_void.get(symbol).copied().unwrap_or(false)
    }
}

fn is_void(kernel: &Btf<'_>, symbol: &str) -> bool {
    let Some((name, module)) = symbol.split_once(" [") else {
        return kernel
            .function(symbol)
            .is_some_and(|function| function.is_void());
    };
    let bytes = btf::read(module.trim_end_matches(']'));
    let mut index = Vec::new();
    let module = btf::parse(&bytes, Some(kernel), &mut index);
    module
        .and_then(|module| module.function(name))
        .is_some_and(|function| function.is_void())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_nothing_without_btf() {
        let mut returns = Returns {
            kernel: vec![1, 2, 3],
            ..Returns::default()
        };
        returns.look_up(["do_exit", "no_function [no_module]"].into_iter());
        assert!(!returns.is_void("do_exit"));
        assert!(!returns.is_void("no_function [no_module]"));
    }
}
