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
pub(super) fn own_arguments() -> impl Iterator<Item = Argument<'static>> {
    [
        Argument::own(PATH, Base::Path, FetchType::String(Space::Kernel)),
        Argument::own(
            "blocks",
            Base::Blocks,
            FetchType::Number(Width::W4, Style::Unsigned),
        ),
    ]
    .into_iter()
}
