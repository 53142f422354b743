// SPDX-License-Identifier: GPL-2.0

//! Per-CPU memory. Each CPU has its own copy, so handlers write without locks.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use core::{
    cell::UnsafeCell,
    mem::{
        align_of,
        size_of, //
    },
    ptr::NonNull,
    sync::atomic::{
        compiler_fence,
        Ordering, //
    },
};

use kernel::{
    bindings,
    cpu::nr_cpu_ids,
    ffi::{
        c_uint,
        c_void, //
    },
    prelude::*, //
};

use crate::{
    arch,
    context::Atomic, //
};

extern "C" {
    fn ktrace_percpu_sum(counter: *const u64) -> u64;
    fn ktrace_per_cpu_ptr(area: *mut c_void, cpu: c_uint) -> *mut c_void;
}

/// A zeroed per-CPU allocation of a `T`.
///
/// # Invariants
///
/// A live allocation of the per-CPU allocator.
struct Area<T>(NonNull<T>);

impl<T> Area<T> {
    /// Process context. `ENOMEM`.
    fn new() -> Result<Self> {
        // SAFETY: The size is not zero and the alignment a power of two, as of any sized type.
        let area = unsafe {
            bindings::pcpu_alloc_noprof(
                size_of::<T>(),
                align_of::<T>(),
                false,
                bindings::GFP_KERNEL,
            )
        };
        // INVARIANT: It was just allocated.
        Ok(Self(NonNull::new(area.cast()).ok_or(ENOMEM)?))
    }
}

impl<T> Drop for Area<T> {
    fn drop(&mut self) {
        // SAFETY: A live allocation, by the type invariant, and this is the only owner.
        unsafe { bindings::free_percpu(self.0.as_ptr().cast()) };
    }
}

/// A counter that costs one instruction to increment.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::percpu::Counter;
///
/// let hits = Counter::new()?;
/// hits.increment();
/// pr_info!("{} hits\n", hits.sum());
/// # Ok::<(), Error>(())
/// ```
pub struct Counter(Area<u64>);

// SAFETY: Any task may read and free the area.
unsafe impl Send for Counter {}
// SAFETY: Each CPU writes to its own copy only, in one instruction; readers read whole words.
unsafe impl Sync for Counter {}

impl Counter {
    /// Creates a counter with the value zero. Process context. `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(Area::new()?))
    }

    /// Adds one. Any context.
    #[inline(always)]
    pub fn increment(&self) {
        // SAFETY: The area is live as long as `self`.
        unsafe { arch::percpu_increment(self.0 .0.as_ptr()) }
    }

    /// The sum over all CPUs. Any context; increments that go on meanwhile may be in it or not.
    pub fn sum(&self) -> u64 {
        // SAFETY: The area is live as long as `self`.
        unsafe { ktrace_percpu_sum(self.0 .0.as_ptr()) }
    }
}

/// The maximum nesting of handlers on one CPU: in a task, a soft interrupt, a hard interrupt, a
/// debug exception and a non-maskable interrupt. In the last two, no watchpoint hits.
const LEVELS: usize = 5;

/// The scratch areas of one CPU.
#[repr(C)]
struct Levels<const N: usize> {
    /// This CPU's copy itself, so that finding it takes one read.
    own: *mut Levels<N>,
    /// The number of buffers in use.
    depth: u32,
    areas: [UnsafeCell<[u8; N]>; LEVELS],
}

/// Scratch areas of `N` bytes for handlers, one for each CPU and context.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     kprobe::Hit,
///     nofault,
///     percpu::Scratch, //
/// };
///
/// /// The bytes that the second argument of the probed function points at, too many for a stack.
/// fn sum(scratch: &Scratch<2048>, hit: &Hit<'_>) -> Option<u64> {
///     scratch.with(hit.atomic(), |area| {
///         let area = area?;
///         nofault::read_kernel(hit.registers().argument(1) as usize, area).ok()?;
///         Some(area.iter().map(|&byte| u64::from(byte)).sum())
///     })
/// }
/// ```
///
/// # Invariants
///
/// Each CPU's `own` points at that CPU's copy.
pub struct Scratch<const N: usize>(Area<Levels<N>>);

// SAFETY: Any task may free the area.
unsafe impl<const N: usize> Send for Scratch<N> {}
// SAFETY: Each CPU uses its own copy only, with preemption disabled, and a handler that interrupts
// another takes the next area.
unsafe impl<const N: usize> Sync for Scratch<N> {}

impl<const N: usize> Scratch<N> {
    /// The maximum size of a per-CPU allocation. The kernel warns of larger ones. C:
    /// `PCPU_MIN_UNIT_SIZE`.
    const FITS: () = assert!(
        size_of::<Levels<N>>() <= 32 << 10,
        "scratch areas must not be larger than 6551 bytes"
    );

    /// Process context. `ENOMEM`.
    pub fn new() -> Result<Self> {
        const { Self::FITS };
        let area = Area::<Levels<N>>::new()?;
        for cpu in 0..nr_cpu_ids() {
            // SAFETY: `area` is a live per-CPU allocation.
            let levels = unsafe { ktrace_per_cpu_ptr(area.0.as_ptr().cast(), cpu) };
            let levels = levels.cast::<Levels<N>>();
            if !levels.is_null() {
                // SAFETY: The copy of a CPU that can exist, and nobody else knows it yet.
                unsafe { (*levels).own = levels };
            }
        }
        // INVARIANT: Set above for every CPU that can run code.
        Ok(Self(area))
    }

    /// Calls `f` with an area that nothing else uses meanwhile, or with none where handlers are
    /// nested deeper than any kernel does. What an earlier use left is still in it.
    #[inline(always)]
    pub fn with<R>(&self, _atomic: &Atomic, f: impl FnOnce(Option<&mut [u8; N]>) -> R) -> R {
        // SAFETY: The area is live, and its first field a pointer.
        let levels = unsafe { arch::percpu_read(self.0 .0.as_ptr().cast::<*mut Levels<N>>()) };
        // SAFETY: By the type invariant this is this CPU's copy, and preemption is disabled, so
        // that only handlers that interrupt this one can touch it meanwhile. They leave `depth` as
        // they found it.
        let depth = unsafe { &raw mut (*levels).depth };
        // SAFETY: The copy is live, and this CPU's.
        let level = unsafe { depth.read_volatile() };
        // SAFETY: The copy is live, and this CPU's. Volatile, and fenced off from the uses of the
        // area: a handler that interrupts this one, on this same CPU, must see the write.
        unsafe { depth.write_volatile(level.wrapping_add(1)) };
        compiler_fence(Ordering::SeqCst);
        // SAFETY: A reference to the cells only: each area belongs to the one handler that runs at
        // its level, which is this one, until `depth` is put back.
        let areas = unsafe { &(*levels).areas };
        let area = areas.get(level as usize).map(|cell| {
            // SAFETY: Handlers that interrupt this one take areas of higher levels, and other CPUs
            // have their own: nobody else uses this one until `depth` is put back.
            unsafe { &mut *cell.get() }
        });
        let result = f(area);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: The copy is live, and this CPU's.
        unsafe { depth.write_volatile(level) };
        result
    }
}
