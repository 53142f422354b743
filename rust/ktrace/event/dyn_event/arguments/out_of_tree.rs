// SPDX-License-Identifier: GPL-2.0

//! The words of a command. The kernel passes no command to an out-of-tree rkprobe.

use core::{
    convert::Infallible,
    marker::PhantomData, //
};

use kernel::str::CStr;

/// An iterator over the words of a command.
#[derive(Clone)]
pub struct Arguments<'a>(Infallible, PhantomData<&'a CStr>);

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        match self.0 {}
    }
}
