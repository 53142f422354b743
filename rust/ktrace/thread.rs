// SPDX-License-Identifier: GPL-2.0

//! Kernel threads. Each is bound to a CPU.
//!
//! A tracer that measures each CPU needs a thread on each CPU. [`Threads`] has one thread for each
//! online CPU. It starts a thread when a CPU comes online, and stops this thread when the CPU goes
//! offline.
//!
//! C header: [`include/linux/kthread.h`](srctree/include/linux/kthread.h)

use core::{
    mem::ManuallyDrop,
    pin::Pin,
    ptr, //
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
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc,
        Completion,
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

use crate::modules::{
    leftover::{
        self,
        Entry,
        Kind, //
    },
    owner, //
};

// `kernel::bindings` defines the type of the task.
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
    /// Runs in the thread of one CPU, in process context. The threads of several CPUs run
    /// concurrently.
    ///
    /// The function must return soon after [`Thread::should_stop`] becomes true. It may return
    /// earlier. The CPU then has no thread until it comes online the next time.
    ///
    /// While the CPU goes offline, the kernel waits for this function with the CPU hotplug lock
    /// held. So the function must not take this lock: it must not register, enable or drop probes.
    fn run(&self, thread: &Thread);
}

/// The state that a thread shares with its wakers.
#[pin_data(PinnedDrop)]
struct Control {
    cpu: u32,
    /// Completed when the thread cannot leave its CPU any more.
    #[pin]
    stays: Completion,
    woken: Atomic<bool>,
    /// The thread, with a reference. NULL until the thread is created.
    task: Atomic<*mut task_struct>,
    /// Only the thread uses this pointer. The thread stops before the object is freed.
    threads: Atomic<*mut PinnedThreads>,
}

impl Control {
    /// Wakes the thread, if it was created. The caller must not be in an NMI, and must not hold a
    /// lock of the scheduler.
    fn wake(&self) {
        let task = self.task.load(Acquire);
        if !task.is_null() {
            // SAFETY: `self` owns a reference to the task.
            unsafe { bindings::wake_up_process(task) };
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Control {
    fn drop(self: Pin<&mut Self>) {
        let task = self.task.load(Relaxed);
        if !task.is_null() {
            // SAFETY: `start` got this reference. No code uses it after this.
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
        // SAFETY: The current task is a kernel thread, because only a kernel thread gets a
        // `Thread`.
        unsafe { bindings::kthread_should_stop() }
    }

    /// Sleeps until a [`Waker`] of this thread is used, or until the thread must stop. If a waker
    /// was used since the last sleep, this function returns immediately. Process context.
    pub fn sleep(&self) {
        // SAFETY: The flag is valid, and C changes it with an atomic instruction. This is process
        // context.
        unsafe { ktrace_thread_sleep(self.control.woken.as_ptr()) };
    }

    /// Sleeps for a time. Returns false if the thread was woken earlier, for example because it
    /// must stop. Process context. C: `schedule_hrtimeout()`.
    pub fn sleep_for(&self, time: Delta) -> bool {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(0);
        // SAFETY: The function has no requirements in process context.
        unsafe { ktrace_thread_sleep_for(ns) }
    }

    /// Lets other tasks run. A thread that does not sleep must call this function repeatedly.
    /// Otherwise RCU's grace periods do not end. Process context. C: `rcu_momentary_eqs()`,
    /// `cond_resched()`.
    pub fn yield_now(&self) {
        // SAFETY: The function has no requirements in process context, outside a read-side critical
        // section.
        unsafe { ktrace_thread_yield() };
    }

    /// Sets a real-time priority from 1 to 99 for the thread. Process context. `EINVAL` for another
    /// number. C: `sched_setattr_nocheck()`.
    pub fn set_fifo(&self, priority: u32) -> Result {
        // SAFETY: The function has no requirements in process context.
        to_result(unsafe { ktrace_thread_set_fifo(priority) })
    }

    /// Creates an object that wakes this thread.
    pub fn waker(&self) -> Waker {
        Waker(self.control.clone())
    }
}

/// Wakes a thread. A waker may outlive the thread, and then does nothing.
pub struct Waker(Arc<Control>);

impl Waker {
    /// Wakes the thread from [`Thread::sleep`]. Only the callback of a timer can call this
    /// function, because the kernel calls a timer with no lock of the scheduler held. A probe
    /// handler may run with such a lock held. C: `wake_up_process()`.
    pub fn wake<T: HasHrTimer<T>>(&self, _timer: &HrTimerCallbackContext<'_, T>) {
        self.0.woken.store(true, Release);
        self.0.wake();
    }
}

/// Kernel threads, one for each online CPU. Dropping the value stops them.
///
/// Dropping waits until each [`Work::run`] has returned. Process context. A thread cannot wait for
/// itself: if a [`Work`] drops threads, these threads run until the module of their work unloads.
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
/// The node in `inner` is an instance of the CPU hotplug state `inner.state`. Only the task that
/// claims `entry` removes both. If `leftover` has done so, `inner` stays allocated.
#[must_use = "dropping the threads stops them"]
pub struct Threads {
    inner: ManuallyDrop<Pin<KBox<PinnedThreads>>>,
    entry: Entry,
}

// SAFETY: The kernel changes the node under its own locks. All other fields are `Send` and `Sync`.
unsafe impl Send for Threads {}
// SAFETY: The kernel changes the node under its own locks. All other fields are `Send` and `Sync`.
unsafe impl Sync for Threads {}

/// Threads that run while an event has a user. The event gets this value as its
/// [`Switch`](crate::trace_event::Switch).
///
/// The event starts and stops the threads with `event_mutex` held. So [`Work::run`] must not
/// register or drop events.
pub struct OnDemand {
    name: CString,
    work: Arc<dyn Work>,
    threads: Pin<KBox<Mutex<Option<Threads>>>>,
}

impl OnDemand {
    /// Creates the value. No thread runs yet. For the arguments, see [`Threads::start`]. Process
    /// context. `ENOMEM`.
    pub fn new(name: &CStr, work: Arc<dyn Work>) -> Result<Self> {
        Ok(Self {
            name: CString::try_from(name)?,
            work,
            threads: KBox::pin_init(new_mutex!(None), GFP_KERNEL)?,
        })
    }

    /// Starts the threads. Context and errors are those of [`Threads::start`].
    pub(crate) fn start(&self) -> Result {
        *self.threads.lock() = Some(Threads::start(&self.name, self.work.clone())?);
        Ok(())
    }

    /// Stops the threads, if they run. Process context; sleeps.
    pub(crate) fn stop(&self) {
        drop(self.threads.lock().take());
    }
}

/// The part that the kernel has pointers to, so it must not move.
#[repr(C)]
#[pin_data]
struct PinnedThreads {
    node: Opaque<hlist_node>,
    state: c_int,
    name: CString,
    work: Arc<dyn Work>,
    /// Whether all online CPUs have their threads.
    is_started: Atomic<bool>,
    /// Whether no thread is started any more. Held while threads stop.
    #[pin]
    is_stopping: Mutex<bool>,
    /// For each CPU, NULL or an `Arc` in raw form. Only the CPU hotplug callbacks for a CPU change
    /// its entry. The kernel makes these calls one at a time.
    controls: KVec<Atomic<*mut Control>>,
}

impl Threads {
    /// Starts a thread for each online CPU. The name of a thread is `name`, a slash and the number
    /// of the CPU. Waits until each thread runs, because it can leave its CPU before.
    ///
    /// Process context; takes the CPU hotplug lock. `ENOMEM`, and `ENOSPC` if the kernel has no
    /// free CPU hotplug state. C: `kthread_create_on_node()`, `cpuhp_setup_state_multi()`.
    pub fn start(name: &CStr, work: Arc<dyn Work>) -> Result<Self> {
        let mut controls = KVec::new();
        for _ in 0..nr_cpu_ids() {
            controls.push(Atomic::new(ptr::null_mut()), GFP_KERNEL)?;
        }
        let code = owner::vtable_of(&*work);
        let name = CString::try_from(name)?;
        // SAFETY: The function has no requirements in process context.
        let state = unsafe { ktrace_add_cpu_state() };
        to_result(state)?;
        let remove_state = |error| {
            // SAFETY: The state was added above and has no instances.
            unsafe { ktrace_remove_cpu_state(state) };
            error
        };
        let inner = KBox::pin_init(
            pin_init!(PinnedThreads {
                node: Opaque::new(hlist_node::default()),
                state,
                name,
                work,
                is_started: Atomic::new(false),
                is_stopping <- new_mutex!(false),
                controls,
            }),
            GFP_KERNEL,
        )
        .map_err(remove_state)?;
        // SAFETY: `remove` stops the threads and waits for them. `inner` is freed only by a task
        // with the claim.
        let claim = unsafe { leftover::track(Kind::Threads, &[code], inner.object(), remove) }
            .map_err(remove_state)?;
        // SAFETY: The state was added above. The node stays in place until it is removed.
        to_result(unsafe { ktrace_add_cpu_instance(state, inner.node.get()) })
            .map_err(remove_state)?;
        inner.is_started.store(true, Relaxed);
        // INVARIANT: `ktrace_add_cpu_instance` has just added the node.
        Ok(Self {
            inner: ManuallyDrop::new(inner),
            entry: claim.keep(),
        })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // SAFETY: The function has no requirements.
        if unsafe { ktrace_is_kthread(run) } {
            // This thread cannot wait for itself, and cannot wait for a thread that waits for this
            // thread.
            return;
        }
        let Some(_claim) = self.entry.claim() else {
            return;
        };
        // SAFETY: By the type invariant, the node is an instance, because this task has the claim.
        // It is not used after this.
        unsafe { self.inner.stop() };
        // SAFETY: The kernel does not use `inner` any more, and this function does not use it after
        // this.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

impl PinnedThreads {
    /// The argument for [`remove`].
    fn object(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// # Safety
    ///
    /// `node` must be the node of a live [`PinnedThreads`].
    unsafe fn from_node<'a>(node: *mut hlist_node) -> &'a Self {
        // SAFETY: The caller guarantees that the node is embedded in a live `PinnedThreads`.
        unsafe { &*kernel::container_of!(Opaque::cast_from(node), PinnedThreads, node) }
    }

    /// Starts the thread of a CPU.
    fn start_on(&self, cpu: u32) -> Result {
        let slot = self.controls.get(cpu as usize).ok_or(EINVAL)?;
        let control = pin_init!(Control {
            cpu,
            stays <- Completion::new(),
            woken: Atomic::new(false),
            task: Atomic::new(ptr::null_mut()),
            threads: Atomic::new(ptr::from_ref(self).cast_mut()),
        });
        let control = Arc::pin_init(control, GFP_KERNEL)?;
        let data = Arc::as_ptr(&control).cast_mut().cast();
        // SAFETY: The name is a string. `data` lives until the thread has stopped, because only
        // `stop_on` frees it, after it has waited for the thread.
        let task = unsafe { ktrace_thread_create(run, data, cpu, self.name.as_char_ptr()) };
        let task = from_err_ptr(task)?;
        // SAFETY: The thread has just been created, and does not run yet.
        unsafe { bindings::get_task_struct(task) };
        control.task.store(task, Release);
        control.wake();
        // When the CPU goes offline, the kernel first moves all tasks that can migrate. A thread
        // that has not run until then would run on another CPU.
        control.stays.wait_for_completion();
        slot.store(Arc::into_raw(control).cast_mut(), Relaxed);
        Ok(())
    }

    /// Stops the thread of a CPU and waits for it.
    fn stop_on(&self, cpu: u32) {
        let Some(slot) = self.controls.get(cpu as usize) else {
            return;
        };
        let control = slot.xchg(ptr::null_mut(), Relaxed);
        if control.is_null() {
            return;
        }
        // SAFETY: `start_on` stored an `Arc` there, and this function takes it out.
        let control = unsafe { Arc::from_raw(control) };
        // SAFETY: `control` owns a reference to the thread, which was created.
        unsafe { bindings::kthread_stop(control.task.load(Relaxed)) };
    }

    /// Stops all threads and waits for them.
    ///
    /// The kernel calls `offline` with its list of CPU hotplug states locked. A thread that returns
    /// may take this lock, for example to drop a watchpoint. So the threads stop before.
    ///
    /// # Safety
    ///
    /// The node must be an instance of the state. No code may use the node after this call.
    unsafe fn stop(&self) {
        let mut is_stopping = self.is_stopping.lock();
        *is_stopping = true;
        for cpu in 0..nr_cpu_ids() {
            self.stop_on(cpu);
        }
        drop(is_stopping);
        // SAFETY: The caller guarantees that the node is an instance. The function calls `offline`
        // for each online CPU, which stops a thread that was being started.
        unsafe { ktrace_remove_cpu_instance(self.state, self.node.get()) };
        // SAFETY: The state was added only for this instance.
        unsafe { ktrace_remove_cpu_state(self.state) };
    }
}

/// Stops the threads that a module left running.
///
/// # Safety
///
/// `object` must be a [`PinnedThreads`] whose node is an instance. Only the caller may remove the
/// node.
unsafe fn remove(object: *mut c_void) {
    // SAFETY: The caller guarantees a live object whose node is an instance. The memory is not
    // freed.
    unsafe { (*object.cast::<PinnedThreads>()).stop() };
}

/// The function that each thread runs.
///
/// # Safety
///
/// `data` must be the address of a [`Control`] in an `Arc` that lives until the thread has stopped.
unsafe extern "C" fn run(data: *mut c_void) -> c_int {
    let control = data.cast_const().cast::<Control>();
    // SAFETY: The caller guarantees an `Arc` that lives until this function returns.
    let borrowed = ManuallyDrop::new(unsafe { Arc::from_raw(control) });
    let thread = Thread {
        control: Arc::clone(&borrowed),
        _here: NotThreadSafe,
    };
    // When a CPU goes offline, the kernel first moves the tasks that can migrate to another CPU,
    // and then stops the thread. So the thread must not migrate.
    // SAFETY: The function has no requirements in process context.
    unsafe { bindings::migrate_disable() };
    borrowed.stays.complete_all();
    let threads = borrowed.threads.load(Relaxed);
    // SAFETY: The threads stop before the object is freed, so the object lives until this function
    // returns.
    unsafe { &*threads }.work.run(&thread);
    // SAFETY: `migrate_disable` was called above.
    unsafe { bindings::migrate_enable() };
    0
}

/// The kernel calls this function when a CPU has come online. When an instance is added, it calls
/// the function for each online CPU.
///
/// # Safety
///
/// `node` must be the node of a live [`PinnedThreads`]. The kernel makes one such call at a time.
#[no_mangle]
unsafe extern "C" fn ktrace_thread_online(cpu: c_uint, node: *mut hlist_node) -> c_int {
    // SAFETY: The kernel passes the node of an instance, which is in a live `PinnedThreads`.
    let threads = unsafe { PinnedThreads::from_node(node) };
    if *threads.is_stopping.lock() {
        return 0;
    }
    from_result(|| match threads.start_on(cpu) {
        // An error here would keep the CPU from coming online.
        Err(error) if threads.is_started.load(Relaxed) => {
            pr_warn!("CPU {cpu} has no thread {}: {error:?}\n", &*threads.name);
            Ok(0)
        }
        result => result.map(|()| 0),
    })
}

/// The kernel calls this function before a CPU goes offline. When an instance is removed, it calls
/// the function for each online CPU.
///
/// # Safety
///
/// `node` must be the node of a live [`PinnedThreads`]. The kernel makes one such call at a time.
#[no_mangle]
unsafe extern "C" fn ktrace_thread_offline(cpu: c_uint, node: *mut hlist_node) -> c_int {
    // SAFETY: The kernel passes the node of an instance, which is in a live `PinnedThreads`.
    let threads = unsafe { PinnedThreads::from_node(node) };
    // If another task stops the thread of this CPU now, this waits for that task.
    let _is_stopping = threads.is_stopping.lock();
    threads.stop_on(cpu);
    0
}
