// SPDX-License-Identifier: GPL-2.0

//! Handlers behind a pointer.

/// Implements the trait `Handler` of the module for `Arc<H>` and `KBox<H>`, where `H` is a handler.
///
/// The trait has `#[vtable]` if the items begin with it. They then say which functions `H` has:
/// the attribute itself would say that a pointer has all of them.
macro_rules! impl_for_pointers {
    (#[vtable] $($items:tt)*) => {
        $crate::pointers::impl_for_pointers! {
            const USE_VTABLE_ATTR: () = ();
            $crate::version::owner_module!(H);
            $($items)*
        }
    };
    ($($items:tt)*) => {
        /// The handler in the `Arc`.
        impl<H: Handler> Handler for ::kernel::sync::Arc<H> {
            $($items)*
        }

        /// The handler in the box.
        impl<H: Handler> Handler for ::kernel::alloc::KBox<H> {
            $($items)*
        }
    };
}
pub(crate) use impl_for_pointers;
