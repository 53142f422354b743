// SPDX-License-Identifier: GPL-2.0

//! The fields of a path.

use crate::{
    argument::{
        Argument,
        Base, //
    },
    types::{
        FetchType,
        Space,
        Style,
        Width, //
    },
};

/// The suffix of the target.
pub(super) const PATH: &str = "path";

/// The arguments at the start of each path: the blocks as text, and their number.
pub(super) static OWN_ARGUMENTS: [Argument<'static>; 2] = [
    Argument::own(PATH, Base::Path, FetchType::String(Space::Kernel)),
    Argument::own_number("blocks", Base::Blocks, Width::W4, Style::Unsigned),
];
