// SPDX-License-Identifier: GPL-2.0

//! Handlers behind a pointer.

/// Implements the trait `Handler` of the module for `Arc<H>` and `KBox<H>`, where `H` is a handler.
///
/// If the trait has `#[vtable]`, the items begin with this attribute, and state the functions that
/// `H` implements. The macro does not apply the attribute to the `impl`, because the attribute
/// would state that the pointer implements all functions.
macro_rules! impl_for_pointers {
    (#[vtable] $($items:tt)*) => {
        $crate::probes::pointers::impl_for_pointers! {
            const USE_VTABLE_ATTR: () = ();
            $crate::modules::this_module::owner_module!(H);
            $($items)*
        }
    };
    ($($items:tt)*) => {
        /// Calls the handler in the `Arc`.
        impl<H: Handler> Handler for ::kernel::sync::Arc<H> {
            $($items)*
        }

        /// Calls the handler in the box.
        impl<H: Handler> Handler for ::kernel::alloc::KBox<H> {
            $($items)*
        }
    };
}
pub(crate) use impl_for_pointers;
