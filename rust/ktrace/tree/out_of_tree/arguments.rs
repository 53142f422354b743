// SPDX-License-Identifier: GPL-2.0

//! The kernel passes no command to rkprobe.

use core::{
    convert::Infallible,
    marker::PhantomData, //
};

use kernel::str::CStr;

/// The words of a command, one by one.
#[derive(Clone)]
pub struct Arguments<'a>(Infallible, PhantomData<&'a CStr>);

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        match self.0 {}
    }
}
