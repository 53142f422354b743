// SPDX-License-Identifier: GPL-2.0

//! Prints the cases that are made from the grammar.

use parity::generate::generate;

fn main() {
    print!("{}", generate());
}
