// SPDX-License-Identifier: GPL-2.0

//! Per-CPU memory. Each CPU has its own copy, so handlers write to it without locks.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use core::{
    cell::UnsafeCell,
    mem::{
        align_of,
        size_of, //
    },
    ops::RangeInclusive,
    ptr::NonNull, //
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
    hit::context::Atomic, //
};

extern "C" {
    fn ktrace_percpu_reset(counters: *mut u64, count: usize);
    fn ktrace_percpu_sum(counter: *const u64) -> u64;
    fn ktrace_per_cpu_ptr(area: *mut c_void, cpu: c_uint) -> *mut c_void;
}

/// A zeroed per-CPU allocation of a `T`.
///
/// # Invariants
///
/// The pointer is a live allocation of the per-CPU allocator.
pub(super) struct Area<T>(NonNull<T>);

impl<T> Area<T> {
    /// Allocates the memory. Process context. `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: The size is not zero. The alignment is a power of two, as for any sized type.
        let area = unsafe {
            bindings::pcpu_alloc_noprof(
                size_of::<T>(),
                align_of::<T>(),
                false,
                bindings::GFP_KERNEL,
            )
        };
        // INVARIANT: `pcpu_alloc_noprof()` has just returned the pointer.
        Ok(Self(NonNull::new(area.cast()).ok_or(ENOMEM)?))
    }

    /// The per-CPU pointer.
    #[inline(always)]
    pub(super) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// The copies of all possible CPUs.
    pub(super) fn copies(&self) -> impl Iterator<Item = *mut T> + '_ {
        (0..nr_cpu_ids()).filter_map(|cpu| {
            // SAFETY: By the type invariant, this is a live per-CPU allocation.
            let copy = unsafe { ktrace_per_cpu_ptr(self.0.as_ptr().cast(), cpu) };
            (!copy.is_null()).then_some(copy.cast())
        })
    }
}

impl<T> Drop for Area<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, this is a live allocation. This value is its only owner.
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
pub struct Counter(Counters<1>);

impl Counter {
    /// Creates a counter with the value zero. Process context. `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(Counters::new()?))
    }

    /// Adds one. Any context.
    #[inline(always)]
    pub fn increment(&self) {
        self.0.increment::<0>();
    }

    /// Adds a number. Any context.
    #[inline(always)]
    pub fn add(&self, number: u64) {
        self.0.add::<0>(number);
    }

    /// The sum over all CPUs. The sum may miss concurrent increments. Any context.
    pub fn sum(&self) -> u64 {
        self.0.sum::<0>()
    }

    /// The values of all possible CPUs, each with the CPU's number. Any context.
    pub fn by_cpu(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.0.by_cpu::<0>()
    }

    /// Sets the counter to zero: see [`Counters::reset`].
    pub fn reset(&self) {
        self.0.reset();
    }
}

/// `N` counters in one allocation, at most 4096. Each is like a [`Counter`].
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::percpu::Counters;
///
/// const READS: usize = 0;
/// const WRITES: usize = 1;
///
/// let calls = Counters::<2>::new()?;
/// calls.increment::<WRITES>();
/// pr_info!("{} reads, {} writes\n", calls.sum::<READS>(), calls.sum::<WRITES>());
/// # Ok::<(), Error>(())
/// ```
///
/// The number of a counter can also be a value:
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     kprobe::Hit,
///     percpu::Counters, //
/// };
///
/// /// Counts by the first argument of the probed function, and all large ones together.
/// fn count(by_first: &Counters<33>, hit: &Hit<'_>) {
///     by_first.add_to(hit.arg::<usize>(0).min(32), 1);
/// }
/// ```
pub struct Counters<const N: usize>(Area<[u64; N]>);

// SAFETY: Any task may read and free the area.
unsafe impl<const N: usize> Send for Counters<N> {}
// SAFETY: Each CPU writes only to its own copy, in one instruction. Readers read whole words.
unsafe impl<const N: usize> Sync for Counters<N> {}

impl<const N: usize> Counters<N> {
    /// Creates the counters with the value zero. Process context. `ENOMEM`.
    pub fn new() -> Result<Self> {
        const { assert!(N > 0, "there must be at least one counter") };
        const { assert!(N <= 4096, "there must be at most 4096 counters") };
        Ok(Self(Area::new()?))
    }

    /// Adds one to counter `I`. Any context.
    #[inline(always)]
    pub fn increment<const I: usize>(&self) {
        // SAFETY: The area lives as long as `self`, and `counter` returns a pointer into it.
        unsafe { arch::percpu_increment(self.counter::<I>()) }
    }

    /// Adds a number to counter `I`. Any context.
    #[inline(always)]
    pub fn add<const I: usize>(&self, number: u64) {
        // SAFETY: The area lives as long as `self`, and `counter` returns a pointer into it.
        unsafe { arch::percpu_add(self.counter::<I>(), number) }
    }

    /// Adds a number to the counter `index`. Does nothing if there is no such counter. Any context.
    #[inline(always)]
    pub fn add_to(&self, index: usize, number: u64) {
        if let Some(counter) = self.find(index) {
            // SAFETY: The area lives as long as `self`, and `find` returns a pointer into it.
            unsafe { arch::percpu_add(counter, number) }
        }
    }

    /// The sum of counter `I` over all CPUs. The sum may miss concurrent increments. Any context.
    pub fn sum<const I: usize>(&self) -> u64 {
        // SAFETY: The area lives as long as `self`, and `counter` returns a pointer into it.
        unsafe { ktrace_percpu_sum(self.counter::<I>()) }
    }

    /// The sum of the counter `index` over all CPUs, or 0 if there is no such counter. The sum may
    /// miss concurrent increments. Any context.
    pub fn sum_of(&self, index: usize) -> u64 {
        self.find(index).map_or(0, |counter| {
            // SAFETY: The area lives as long as `self`, and `find` returns a pointer into it.
            unsafe { ktrace_percpu_sum(counter) }
        })
    }

    /// The values of counter `I` on all possible CPUs, each with the CPU's number. Any context.
    pub fn by_cpu<const I: usize>(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0..nr_cpu_ids()).filter_map(|cpu| {
            // SAFETY: The area is a live per-CPU allocation, and `counter` returns a pointer into
            // it.
            let copy = unsafe { ktrace_per_cpu_ptr(self.counter::<I>().cast(), cpu) };
            let copy = NonNull::new(copy.cast::<u64>())?;
            // SAFETY: This is a CPU's copy of the counter, and lives as long as `self`. The CPU may
            // write it at any time, as a whole word.
            Some((cpu, unsafe { copy.read_volatile() }))
        })
    }

    /// Sets all counters to zero. Each CPU sets its own copy, so increments before the reset do not
    /// come back, and those after it count.
    ///
    /// Process context; sleeps. Interrupts must be enabled. C: `on_each_cpu()`.
    pub fn reset(&self) {
        // SAFETY: The area is a live per-CPU allocation of this size. By the type's `Sync`, each
        // CPU's writes to its copy do not conflict.
        unsafe { ktrace_percpu_reset(self.0.as_ptr().cast(), N) };
    }

    /// The per-CPU pointer to counter `I`.
    #[inline(always)]
    fn counter<const I: usize>(&self) -> *mut u64 {
        const { assert!(I < N, "there is no such counter") };
        // A per-CPU pointer is no address of memory, so the addition must be one that wraps.
        self.0.as_ptr().cast::<u64>().wrapping_add(I)
    }

    /// The per-CPU pointer to the counter `index`, if there is such a counter.
    #[inline(always)]
    fn find(&self, index: usize) -> Option<*mut u64> {
        (index < N).then(|| self.0.as_ptr().cast::<u64>().wrapping_add(index))
    }
}

/// A histogram of numbers, whose buckets are powers of two.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::percpu::Histogram;
///
/// let sizes = Histogram::new()?;
/// sizes.record(100);
/// for (range, count) in sizes.buckets().filter(|(_, count)| *count > 0) {
///     pr_info!("{} to {}: {}\n", range.start(), range.end(), count);
/// }
/// # Ok::<(), Error>(())
/// ```
pub struct Histogram(Counters<65>);

impl Histogram {
    /// Creates an empty histogram. Process context. `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(Counters::new()?))
    }

    /// Counts a number. Any context.
    #[inline(always)]
    pub fn record(&self, number: u64) {
        // The number of its bits. There is a bucket for each of 0 to 64.
        self.0
            .add_to((u64::BITS - number.leading_zeros()) as usize, 1);
    }

    /// All buckets, the lowest first: the numbers that the bucket counts, and how many there were.
    /// The first bucket is for 0 alone, then follow 1, 2 to 3, 4 to 7 and so on. The counts may
    /// miss concurrent records. Any context.
    pub fn buckets(&self) -> impl Iterator<Item = (RangeInclusive<u64>, u64)> + '_ {
        (0..=u64::BITS).map(|bits| {
            let last = u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
            (
                last / 2 + u64::from(bits > 0)..=last,
                self.0.sum_of(bits as usize),
            )
        })
    }

    /// Empties the histogram: see [`Counters::reset`].
    pub fn reset(&self) {
        self.0.reset();
    }
}

/// The number of nested handlers on one CPU that get an area: as many as there are contexts (a
/// task, a soft interrupt, a hard interrupt, a debug exception and a non-maskable interrupt).
/// Deeper nesting is possible but rare: in each context, a handler of ftrace can be nested in
/// another one, and in it one of a kprobe, of a tracepoint and of a watchpoint.
const LEVELS: usize = 5;

/// The scratch areas of one CPU.
#[repr(C)]
struct Levels<const N: usize> {
    /// The address of this CPU's copy, so that one read finds the copy.
    own: *mut Levels<N>,
    /// The number of areas in use.
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
///         nofault::read_kernel(hit.registers().arg::<usize>(1), area).ok()?;
///         Some(area.iter().map(|&byte| u64::from(byte)).sum())
///     })
/// }
/// ```
///
/// # Invariants
///
/// Each CPU's `own` points to that CPU's copy.
pub struct Scratch<const N: usize>(Area<Levels<N>>);

// SAFETY: Any task may free the area.
unsafe impl<const N: usize> Send for Scratch<N> {}
// SAFETY: Each CPU uses only its own copy, with preemption disabled. A handler that interrupts
// another handler takes the next area.
unsafe impl<const N: usize> Sync for Scratch<N> {}

impl<const N: usize> Scratch<N> {
    /// A per-CPU allocation must not exceed this size, because the kernel warns about larger ones.
    /// C: `PCPU_MIN_UNIT_SIZE`.
    const FITS: () = assert!(
        size_of::<Levels<N>>() <= 32 << 10,
        "scratch areas must not be larger than 6551 bytes"
    );

    /// Creates the scratch areas. Process context. `ENOMEM`.
    pub fn new() -> Result<Self> {
        const { Self::FITS };
        let area = Area::<Levels<N>>::new()?;
        for levels in area.copies() {
            // SAFETY: This is the copy of a possible CPU, and no other code has the area yet.
            unsafe { (*levels).own = levels };
        }
        // INVARIANT: The loop above has set `own` for every possible CPU.
        Ok(Self(area))
    }

    /// Calls `f` with an area that no other code uses during the call. If five handlers that this
    /// one interrupts use an area each, calls `f` with `None`, and the caller should count the hit
    /// as missed. The area still has the bytes of its previous use.
    #[inline(always)]
    pub fn with<R>(&self, _atomic: &Atomic, f: impl FnOnce(Option<&mut [u8; N]>) -> R) -> R {
        // SAFETY: The area is live, and its first field is a pointer.
        let levels = unsafe { arch::percpu_read(self.0.as_ptr().cast::<*mut Levels<N>>()) };
        // SAFETY: By the type invariant, this is this CPU's copy. Preemption is disabled, so only
        // handlers that interrupt this one can use the copy meanwhile. They restore `depth`.
        let depth = unsafe { &raw mut (*levels).depth };
        // SAFETY: The copy is live, and belongs to this CPU.
        let level = unsafe { depth.read_volatile() };
        // SAFETY: The copy is live, and belongs to this CPU. The write is volatile and comes before
        // a barrier, because a handler that interrupts this one on this CPU must see the
        // write.
        unsafe { depth.write_volatile(level.wrapping_add(1)) };
        arch::barrier();
        // SAFETY: This is only a reference to the cells. Each area belongs to the handler at its
        // level. This handler owns its area until it restores `depth`.
        let areas = unsafe { &(*levels).areas };
        let area = areas.get(level as usize).map(|cell| {
            // SAFETY: Handlers that interrupt this one take areas of higher levels, and other CPUs
            // have their own copies. So no other code uses this area until this handler restores
            // `depth`.
            unsafe { &mut *cell.get() }
        });
        let result = f(area);
        arch::barrier();
        // SAFETY: The copy is live, and belongs to this CPU.
        unsafe { depth.write_volatile(level) };
        result
    }
}
