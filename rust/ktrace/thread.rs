// SPDX-License-Identifier: GPL-2.0

//! Kernel threads, one bound to each CPU.
//!
//! A tracer that measures its CPU needs a thread there. [`Threads`] has one for each online CPU,
//! starts one when a CPU comes online, and stops it when the CPU goes offline.
//!
//! C header: [`include/linux/kthread.h`](srctree/include/linux/kthread.h)

use core::{
    mem::ManuallyDrop,
    pin::Pin,
    ptr,
    sync::atomic::{
        AtomicBool,
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings::{
        self,
        hlist_node,
        task_struct, //
    },
    cpu::nr_cpu_ids,
    error::{
        from_err_ptr,
        from_result,
        to_result, //
    },
    ffi::{
        c_char,
        c_int,
        c_uint,
        c_void, //
    },
    new_mutex,
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        hrtimer::{
            HasHrTimer,
            HrTimerCallbackContext, //
        },
        Delta, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

use crate::{
    leftover, owner,
    trace_event::{
        EventMutexHeld,
        Switch, //
    },
};

// The task is used as `kernel::bindings` has it.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_thread_create(
        run: unsafe extern "C" fn(*mut c_void) -> c_int,
        data: *mut c_void,
        cpu: c_uint,
        name: *const c_char,
    ) -> *mut task_struct;
    fn ktrace_thread_set_fifo(priority: c_uint) -> c_int;
    fn ktrace_thread_sleep(woken: *mut bool);
    fn ktrace_thread_sleep_for(ns: u64) -> bool;
    fn ktrace_thread_yield();
    fn ktrace_is_kthread(run: unsafe extern "C" fn(*mut c_void) -> c_int) -> bool;
    fn ktrace_add_cpu_state() -> c_int;
    fn ktrace_add_cpu_instance(state: c_int, node: *mut hlist_node) -> c_int;
    fn ktrace_remove_cpu_instance(state: c_int, node: *mut hlist_node);
    fn ktrace_remove_cpu_state(state: c_int);
}

/// The work of a thread.
pub trait Work: Send + Sync + 'static {
    /// Runs in the thread of one CPU, in process context. Threads of several CPUs run at the same
    /// time.
    ///
    /// It must return soon after [`Thread::should_stop`] becomes true. It may return before: the
    /// CPU then has no thread until it comes online the next time.
    ///
    /// While the CPU goes offline, the kernel waits for this function with the lock of CPU hotplug
    /// held. So it must not take this lock: it must not register or enable probes.
    fn run(&self, thread: &Thread);
}

/// The state that a thread shares with those that wake it.
struct Control {
    cpu: u32,
    woken: AtomicBool,
    /// The thread, with a reference. NULL until it was created.
    task: AtomicPtr<task_struct>,
    /// Used by the thread alone, which stops before they are freed.
    threads: AtomicPtr<PinnedThreads>,
}

impl Control {
    /// Wakes the thread, if it was created. Not in an NMI, and not with a lock of the scheduler.
    fn wake(&self) {
        let task = self.task.load(Ordering::Acquire);
        if !task.is_null() {
            // SAFETY: `self` has a reference to the task.
            unsafe { bindings::wake_up_process(task) };
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let task = *self.task.get_mut();
        if !task.is_null() {
            // SAFETY: `start` got this reference, and nobody uses it after this.
            unsafe { bindings::put_task_struct(task) };
        }
    }
}

/// The thread that runs [`Work::run`].
pub struct Thread {
    control: Arc<Control>,
    _here: NotThreadSafe,
}

impl Thread {
    /// The number of the CPU that the thread is bound to.
    pub fn cpu(&self) -> u32 {
        self.control.cpu
    }

    /// Whether [`Work::run`] must return. C: `kthread_should_stop()`.
    pub fn should_stop(&self) -> bool {
        // SAFETY: The current task is a kernel thread: only such a task gets a `Thread`.
        unsafe { bindings::kthread_should_stop() }
    }

    /// Sleeps until a [`Waker`] of this thread is used, or until the thread must stop. If a waker
    /// was used since the last sleep, this returns at once. Process context.
    pub fn sleep(&self) {
        // SAFETY: The flag is valid, and C changes it with an atomic instruction. Process context.
        unsafe { ktrace_thread_sleep(self.control.woken.as_ptr()) };
    }

    /// Sleeps for a time. Returns false if the thread was woken before, as when it must stop.
    /// Process context. C: `schedule_hrtimeout()`.
    pub fn sleep_for(&self, time: Delta) -> bool {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(0);
        // SAFETY: No requirements in process context.
        unsafe { ktrace_thread_sleep_for(ns) }
    }

    /// Lets other tasks run. A thread that does not sleep calls this again and again, or RCU's
    /// grace periods do not end. Process context. C: `rcu_momentary_eqs()`, `cond_resched()`.
    pub fn yield_now(&self) {
        // SAFETY: No requirements in process context, outside of a read-side critical section.
        unsafe { ktrace_thread_yield() };
    }

    /// Gives the thread a real-time priority, from 1 to 99. Process context. `EINVAL` for another
    /// number. C: `sched_setattr_nocheck()`.
    pub fn set_fifo(&self, priority: u32) -> Result {
        // SAFETY: No requirements in process context.
        to_result(unsafe { ktrace_thread_set_fifo(priority) })
    }

    /// An object that wakes this thread.
    pub fn waker(&self) -> Waker {
        Waker(self.control.clone())
    }
}

/// Wakes a thread. It may outlive the thread, and then does nothing.
pub struct Waker(Arc<Control>);

impl Waker {
    /// Wakes the thread from [`Thread::sleep`]. Called in the callback of a timer, as the argument
    /// shows: the kernel calls it with no lock of the scheduler held, while a handler can be called
    /// with any. C: `wake_up_process()`.
    pub fn wake<T: HasHrTimer<T>>(&self, _timer: &HrTimerCallbackContext<'_, T>) {
        self.0.woken.store(true, Ordering::Release);
        self.0.wake();
    }
}

/// Kernel threads, one for each online CPU, until dropped.
///
/// Dropping stops the threads and waits until each [`Work::run`] has returned. Process context. A
/// thread cannot wait for itself: if a [`Work`] drops threads, these run until the module of their
/// work goes.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use kernel::{
///     sync::Arc,
///     time::Delta, //
/// };
/// use ktrace::{
///     percpu::Counter,
///     thread::{
///         Thread,
///         Threads,
///         Work, //
///     },
/// };
///
/// struct Ticks(Counter);
///
/// impl Work for Ticks {
///     fn run(&self, thread: &Thread) {
///         while !thread.should_stop() {
///             self.0.increment();
///             thread.sleep_for(Delta::from_millis(10));
///         }
///     }
/// }
///
/// let ticks = Arc::new(Ticks(Counter::new()?), GFP_KERNEL)?;
/// let threads = Threads::start(c"ticks", ticks.clone())?;
/// drop(threads);
/// pr_info!("{} ticks\n", ticks.0.sum());
/// # Ok::<(), Error>(())
/// ```
///
/// # Invariants
///
/// The node in `inner` is an instance of its `state`, a state of CPU hotplug.
pub struct Threads {
    inner: ManuallyDrop<Pin<KBox<PinnedThreads>>>,
}

// SAFETY: The kernel changes the node under its own locks; all else is `Send` and `Sync`.
unsafe impl Send for Threads {}
// SAFETY: The kernel changes the node under its own locks; all else is `Send` and `Sync`.
unsafe impl Sync for Threads {}

/// Threads that run while somebody has enabled an event. The event gets this as its [`Switch`].
///
/// The threads are started and stopped with `event_mutex` held. So [`Work::run`] must not register
/// or drop events.
pub struct OnDemand {
    name: CString,
    work: Arc<dyn Work>,
    threads: Pin<KBox<Mutex<Option<Threads>>>>,
}

impl OnDemand {
    /// No thread runs yet. For the arguments, see [`Threads::start`]. Process context. `ENOMEM`.
    pub fn new(name: &CStr, work: Arc<dyn Work>) -> Result<Self> {
        Ok(Self {
            name: CString::try_from(name)?,
            work,
            threads: KBox::pin_init(new_mutex!(None), GFP_KERNEL)?,
        })
    }
}

impl Switch for OnDemand {
    fn enable(&self, _: &EventMutexHeld) -> Result {
        *self.threads.lock() = Some(Threads::start(&self.name, self.work.clone())?);
        Ok(())
    }

    fn disable(&self, _: &EventMutexHeld) {
        drop(self.threads.lock().take());
    }
}

/// The part that the kernel knows: it must not move.
#[repr(C)]
struct PinnedThreads {
    node: Opaque<hlist_node>,
    state: c_int,
    name: CString,
    work: Arc<dyn Work>,
    /// Whether all online CPUs have got their threads.
    is_started: AtomicBool,
    /// For each CPU, NULL or an `Arc` in raw form. Only the calls of CPU hotplug for this CPU
    /// change it, which the kernel makes one at a time.
    controls: KVec<AtomicPtr<Control>>,
}

impl Threads {
    /// Starts a thread for each online CPU. Their names are `name`, a slash and the number of the
    /// CPU.
    ///
    /// Process context; takes the lock of CPU hotplug. `ENOMEM`, and `ENOSPC` if the kernel has no
    /// free state of CPU hotplug. C: `kthread_create_on_node()`, `cpuhp_setup_state_multi()`.
    pub fn start(name: &CStr, work: Arc<dyn Work>) -> Result<Self> {
        let mut controls = KVec::new();
        for _ in 0..nr_cpu_ids() {
            controls.push(AtomicPtr::new(ptr::null_mut()), GFP_KERNEL)?;
        }
        let code = owner::vtable_of(&*work);
        let name = CString::try_from(name)?;
        // SAFETY: No requirements in process context.
        let state = unsafe { ktrace_add_cpu_state() };
        to_result(state)?;
        let remove_state = |error| {
            // SAFETY: The state was added above and has no instances.
            unsafe { ktrace_remove_cpu_state(state) };
            error
        };
        let inner = KBox::pin(
            PinnedThreads {
                node: Opaque::new(hlist_node::default()),
                state,
                name,
                work,
                is_started: AtomicBool::new(false),
                controls,
            },
            GFP_KERNEL,
        )
        .map_err(|error| remove_state(error.into()))?;
        // SAFETY: `remove` stops the threads and waits for them. `inner` is freed after `untrack`
        // only.
        unsafe { leftover::track(code, inner.object(), remove) }.map_err(remove_state)?;
        // SAFETY: The state was added above. The node stays in place until it is removed.
        to_result(unsafe { ktrace_add_cpu_instance(state, inner.node.get()) }).map_err(
            |error| {
                leftover::untrack(inner.object());
                remove_state(error)
            },
        )?;
        inner.is_started.store(true, Ordering::Relaxed);
        // INVARIANT: Added just now.
        Ok(Self {
            inner: ManuallyDrop::new(inner),
        })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // SAFETY: No requirements.
        if unsafe { ktrace_is_kthread(run) } {
            // This thread cannot wait for itself, nor for one that waits for this one.
            return;
        }
        // SAFETY: By the type invariant the node is an instance. This is the end of it.
        unsafe { self.inner.stop() };
        leftover::untrack(self.inner.object());
        // SAFETY: The kernel does not use it any more, and neither does this.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

impl PinnedThreads {
    /// Its entry in the list of [`leftover`].
    fn object(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// # Safety
    ///
    /// `node` must be the one of a live [`PinnedThreads`].
    unsafe fn from_node<'a>(node: *mut hlist_node) -> &'a Self {
        // SAFETY: The caller guarantees that the node is embedded in a live `PinnedThreads`.
        unsafe { &*kernel::container_of!(Opaque::cast_from(node), PinnedThreads, node) }
    }

    /// Starts the thread of a CPU.
    fn start_on(&self, cpu: u32) -> Result {
        let slot = self.controls.get(cpu as usize).ok_or(EINVAL)?;
        let control = Control {
            cpu,
            woken: AtomicBool::new(false),
            task: AtomicPtr::new(ptr::null_mut()),
            threads: AtomicPtr::new(ptr::from_ref(self).cast_mut()),
        };
        let control = Arc::new(control, GFP_KERNEL)?;
        let data = Arc::as_ptr(&control).cast_mut().cast();
        // SAFETY: The name is a string. `data` stays until the thread has stopped: it is freed by
        // `stop_on`, which waits for that.
        let task = unsafe { ktrace_thread_create(run, data, cpu, self.name.as_char_ptr()) };
        let task = from_err_ptr(task)?;
        // SAFETY: The thread was created just now, and does not run yet.
        unsafe { bindings::get_task_struct(task) };
        control.task.store(task, Ordering::Release);
        control.wake();
        slot.store(Arc::into_raw(control).cast_mut(), Ordering::Relaxed);
        Ok(())
    }

    /// Stops the thread of a CPU and waits for it.
    fn stop_on(&self, cpu: u32) {
        let Some(slot) = self.controls.get(cpu as usize) else {
            return;
        };
        let control = slot.swap(ptr::null_mut(), Ordering::Relaxed);
        if control.is_null() {
            return;
        }
        // SAFETY: `start_on` put an `Arc` there, and this takes it out.
        let control = unsafe { Arc::from_raw(control) };
        // SAFETY: `control` has a reference to the thread, which was created.
        unsafe { bindings::kthread_stop(control.task.load(Ordering::Relaxed)) };
    }

    /// Stops all threads and waits for them.
    ///
    /// # Safety
    ///
    /// The node must be an instance of the state, and not be used after this.
    unsafe fn stop(&self) {
        // SAFETY: The caller guarantees that the node is an instance. This calls `offline` for
        // each online CPU. The others have no threads.
        unsafe { ktrace_remove_cpu_instance(self.state, self.node.get()) };
        // SAFETY: The state was added for this instance alone.
        unsafe { ktrace_remove_cpu_state(self.state) };
    }
}

/// Stops the threads that a module left behind.
///
/// # Safety
///
/// `object` must be a [`PinnedThreads`] whose node is an instance, and nobody else must use it.
unsafe fn remove(object: *mut c_void) {
    // SAFETY: The caller guarantees a live object whose node is an instance. The memory stays.
    unsafe { (*object.cast::<PinnedThreads>()).stop() };
}

/// The function of each thread.
///
/// # Safety
///
/// `data` must be the address of a [`Control`] in an `Arc`, which lives until the thread has
/// stopped.
unsafe extern "C" fn run(data: *mut c_void) -> c_int {
    let control = data.cast_const().cast::<Control>();
    // SAFETY: The caller guarantees an `Arc` that lives until this returns.
    let borrowed = ManuallyDrop::new(unsafe { Arc::from_raw(control) });
    let thread = Thread {
        control: Arc::clone(&borrowed),
        _here: NotThreadSafe,
    };
    // While a CPU goes offline, the kernel moves the tasks of this CPU that can migrate before
    // the thread is stopped.
    // SAFETY: No requirements in process context.
    unsafe { bindings::migrate_disable() };
    let threads = borrowed.threads.load(Ordering::Relaxed);
    // SAFETY: The threads stop before the object is freed, so it lives until this returns.
    unsafe { &*threads }.work.run(&thread);
    // SAFETY: Disabled above.
    unsafe { bindings::migrate_enable() };
    0
}

/// Called by the kernel when a CPU has come online, and for each online CPU when an instance is
/// added.
///
/// # Safety
///
/// `node` must be that of a live [`PinnedThreads`], and the kernel makes one such call at a time.
#[no_mangle]
unsafe extern "C" fn ktrace_thread_online(cpu: c_uint, node: *mut hlist_node) -> c_int {
    // SAFETY: The kernel passes the node of an instance, which is in a live `PinnedThreads`.
    let threads = unsafe { PinnedThreads::from_node(node) };
    from_result(|| match threads.start_on(cpu) {
        // An error here would keep the CPU from coming online.
        Err(error) if threads.is_started.load(Ordering::Relaxed) => {
            pr_warn!("CPU {cpu} has no thread {}: {error:?}\n", &*threads.name);
            Ok(0)
        }
        result => result.map(|()| 0),
    })
}

/// Called by the kernel before a CPU goes offline, and for each online CPU when an instance is
/// removed.
///
/// # Safety
///
/// As for [`ktrace_thread_online`].
#[no_mangle]
unsafe extern "C" fn ktrace_thread_offline(cpu: c_uint, node: *mut hlist_node) -> c_int {
    // SAFETY: The kernel passes the node of an instance, which is in a live `PinnedThreads`.
    let threads = unsafe { PinnedThreads::from_node(node) };
    threads.stop_on(cpu);
    0
}
