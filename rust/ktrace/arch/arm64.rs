// SPDX-License-Identifier: GPL-2.0

//! arm64.

use core::{
    arch::asm,
    marker::PhantomData,
    mem::offset_of,
    ptr, //
};

use kernel::{
    bindings::{
        ftrace_regs,
        pt_regs,
        task_struct,
        user_pt_regs, //
    },
    ffi::{
        c_ulong,
        c_void, //
    },
    str::CStr,
    sync::atomic::{
        ordering,
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

use probe::{
    arch::{
        arm64::{
            register,
            FRAME_POINTER,
            INSTRUCTION_POINTER,
            LINK,
            PT_REGS_BYTES,
            STACK_POINTER, //
        },
        Register,
        Slot, //
    },
    insn::{
        arm64::Class,
        Reference, //
    },
    types::Width, //
};

use crate::bindings::{
    __arch_ftrace_regs,
    ARM64_HAS_VIRT_HOST_EXTN,
    MCOUNT_INSN_SIZE, //
};

use super::{
    code_at,
    RegisterFile,
    ReturnCode, //
};

pub(crate) use probe::insn::arm64::Arm64 as Decoder;

/// arm64 has no return thunks.
pub(crate) fn is_return_thunk(_name: &str) -> bool {
    false
}

/// arm64 has no indirect thunks.
pub(crate) fn is_indirect_thunk(_name: &str) -> bool {
    false
}

/// The distance from a per-CPU address to this CPU's copy, in bytes. The kernel keeps the distance
/// in a register. The register depends on the exception level that the kernel runs at. The kernel
/// writes the correct instruction when it loads the module. C: `__my_cpu_offset`.
#[inline(always)]
fn cpu_offset() -> usize {
    let offset;
    // SAFETY: Both instructions only read a system register and have the same length. The kernel
    // replaces the first one by the second one on CPUs where it may execute the second one. The
    // entry in `.altinstructions` is a `struct alt_instr`.
    unsafe {
        asm!(
            "661: mrs {offset}, tpidr_el1",
            "662: .pushsection .altinstructions, \"a\"",
            ".word 661b - .",
            ".word 663f - .",
            ".hword {capability}",
            ".byte 662b - 661b",
            ".byte 664f - 663f",
            ".popsection",
            ".subsection 1",
            "663: mrs {offset}, tpidr_el2",
            "664: .previous",
            offset = out(reg) offset,
            capability = const ARM64_HAS_VIRT_HOST_EXTN,
            options(nostack, readonly, preserves_flags),
        )
    };
    offset
}

/// Whether ftrace reports the accesses of a watchpoint. The kernel steps over an access only for
/// the handler of perf. C: `is_default_overflow_handler()`.
pub(crate) const WATCHES_BY_FTRACE: bool = true;

/// Debug exceptions are masked in the entry code of exceptions.
pub(crate) const ENTRY_TEXT: &[(&CStr, &CStr)] = &[];

/// Finds no memory. [`ENTRY_TEXT`] has no text to decode.
pub(crate) fn references(_text: &[u8], _address: u64, _found: impl FnMut(Reference)) -> Option<u8> {
    None
}

/// Whether [`read_number`] reads most kernel addresses.
pub(crate) const READS_NUMBERS: bool = false;

/// The kernel never replaces the breakpoint of a kprobe by a jump.
pub(crate) const KPROBE_JUMP: u64 = 0;

/// Returns `None`, so the caller uses `copy_from_kernel_nofault()`.
#[inline(always)]
pub(crate) fn read_number(_address: usize, _width: Width) -> Option<u64> {
    None
}

/// Adds one to this CPU's copy of a per-CPU number. The addition is atomic, so the count is correct
/// even if the task is interrupted or moves to another CPU meanwhile. C: `raw_cpu_inc()`.
///
/// # Safety
///
/// `counter` must be a live per-CPU allocation of a `u64`.
#[inline(always)]
pub(crate) unsafe fn percpu_increment(counter: *mut u64) {
    // SAFETY: The caller guarantees a live per-CPU allocation.
    unsafe { percpu_add(counter, 1) };
}

/// Adds a number to this CPU's copy of a per-CPU counter, as [`percpu_increment`] adds one. C:
/// `raw_cpu_add()`.
///
/// # Safety
///
/// `counter` must be a live per-CPU allocation of a `u64`.
#[inline(always)]
pub(crate) unsafe fn percpu_add(counter: *mut u64, number: u64) {
    let copy = counter.wrapping_byte_add(cpu_offset());
    // SAFETY: The caller guarantees a live per-CPU allocation, and this is one of its copies.
    unsafe { local_add(copy, number) };
}

/// The instructions that add a number to a word, with this instruction for the store.
macro_rules! add_by {
    ($store:literal, $word:ident, $number:ident) => {
        asm!(
            "2:",
            "ldxr {value}, [{word}]",
            "add {value}, {value}, {number}",
            concat!($store, " {is_disturbed:w}, {value}, [{word}]"),
            "cbnz {is_disturbed:w}, 2b",
            word = in(reg) $word,
            number = in(reg) $number,
            value = out(reg) _,
            is_disturbed = out(reg) _,
            options(nostack, preserves_flags)
        )
    };
}

/// Adds a number to a word that an interrupt of this CPU may also change. The addition is atomic.
/// C: `local64_add()`.
///
/// # Safety
///
/// `word` must be valid.
#[inline(always)]
pub(crate) unsafe fn local_add(word: *mut u64, number: u64) {
    // SAFETY: The caller guarantees that the pointer is valid. The instructions change no other
    // memory, and repeat until no other access came between.
    unsafe { add_by!("stxr", word, number) };
}

/// Adds as [`local_add`] does, after all earlier memory accesses.
///
/// # Safety
///
/// `word` must be valid.
#[inline(always)]
pub(crate) unsafe fn local_add_release(word: *mut u64, number: u64) {
    // SAFETY: The caller guarantees that the pointer is valid. The instructions change no other
    // memory, and repeat until no other access came between. Without options, the compiler moves no
    // memory access across them.
    unsafe { add_by!("stlxr", word, number) };
}

/// Reads a pointer before all later memory accesses. C: `smp_load_acquire()`.
///
/// # Safety
///
/// `place` must be valid, and all writes to it at the same time must be atomic.
#[inline(always)]
pub(crate) unsafe fn load_acquire<T>(place: *const *mut T) -> *mut T {
    let value;
    // SAFETY: The caller guarantees that the place is valid. Without options, the compiler moves no
    // memory access across the instruction.
    unsafe {
        asm!("ldar {}, [{}]", out(reg) value, in(reg) place, options(nostack, preserves_flags))
    };
    value
}

/// Writes a word after all earlier memory accesses. C: `smp_store_release()`.
#[inline(always)]
pub(crate) fn store_release(word: &Atomic<u64>, value: u64) {
    // SAFETY: The pointer is from a reference, and all accesses to an `Atomic` are atomic. Without
    // options, the compiler moves no memory access across the instruction.
    unsafe {
        asm!("stlr {}, [{}]", in(reg) value, in(reg) word.as_ptr(),
             options(nostack, preserves_flags))
    };
}

/// Replaces a word if it is `old`, or else returns it as the error. C: `cmpxchg()`.
///
/// This and the next two functions call the kernel, which chooses the instructions for the
/// processor. A loop of exclusive loads and stores in this place would never end at a watched word.
#[inline(always)]
pub(crate) fn compare_exchange(
    word: &Atomic<u64>,
    old: u64,
    new: u64,
    order: impl ordering::Ordering,
) -> Result<u64, u64> {
    word.cmpxchg(old, new, order)
}

/// Replaces a word, and returns the word before. C: `xchg_relaxed()`.
#[inline(always)]
pub(crate) fn exchange(word: &Atomic<u64>, value: u64) -> u64 {
    word.xchg(value, Relaxed)
}

/// Adds to a word, and returns the word before. The sum wraps. C: `atomic64_fetch_add_relaxed()`.
#[inline(always)]
pub(crate) fn fetch_add(word: &Atomic<u64>, number: u64) -> u64 {
    word.fetch_add(number, Relaxed)
}

/// Reads this CPU's copy of a per-CPU pointer. C: `raw_cpu_read()`.
///
/// # Safety
///
/// `pointer` must be a live per-CPU allocation of a pointer.
#[inline(always)]
pub(crate) unsafe fn percpu_read<T>(pointer: *const *mut T) -> *mut T {
    // SAFETY: The caller guarantees a live per-CPU allocation, and this reads one of its copies.
    unsafe { pointer.wrapping_byte_add(cpu_offset()).read() }
}

/// Returns the address of this CPU's copy of the per-CPU variable at `address`. If preemption is
/// enabled, the task may move to another CPU at any time. C: `this_cpu_ptr()`.
#[inline(always)]
pub(crate) fn this_cpu(address: usize) -> usize {
    address.wrapping_add(cpu_offset())
}

/// The current task. C: `current`.
#[inline(always)]
pub(crate) fn current() -> *const task_struct {
    let task;
    // SAFETY: The instruction only reads a register. In the kernel, the register holds the address
    // of the current task.
    unsafe { asm!("mrs {}, sp_el0", out(reg) task, options(nomem, nostack, preserves_flags)) };
    task
}

/// Returns the [`CodePlace`](super::CodePlace) of the code that this function is inlined into.
#[inline(always)]
pub(crate) fn place() -> super::CodePlace {
    let (code, frame);
    // SAFETY: Both instructions only write to their registers.
    unsafe {
        asm!("adr {}, .", "mov {}, x29", out(reg) code, out(reg) frame,
             options(nomem, nostack, preserves_flags))
    };
    super::CodePlace { code, frame }
}

/// Writes nothing: a walk from the handler costs little, and the kernel exports no other.
pub(crate) fn callers(
    _registers: impl RegisterFile,
    _ip: usize,
    _code: &ReturnCode,
    _to: &mut [usize],
) -> usize {
    0
}

/// The place of the return address, at the first instruction of a function and at one that returns.
pub(crate) const RETURN_ADDRESS: Slot = Slot::Register(LINK);

/// The register that the kernel knows a call by, at the same instructions: see
/// [`true_caller`](super::true_caller).
pub(crate) const CALL_PLACE: Register = FRAME_POINTER;

/// Returns `address`: the walk from the handler finds the caller.
pub(crate) fn true_caller_at_return(
    _registers: impl RegisterFile,
    address: usize,
    _code: &ReturnCode,
) -> usize {
    address
}

/// The registers that ftrace saves: x0 to x8, the frame pointer, the link register, the stack
/// pointer and the instruction pointer.
///
/// # Invariants
///
/// Points to a `struct ftrace_regs` that ftrace filled in, or to an equivalent structure. No code
/// changes the structure for `'a`.
#[derive(Clone, Copy)]
pub struct CallRegisters<'a> {
    regs: *mut __arch_ftrace_regs,
    lifetime: PhantomData<&'a Opaque<__arch_ftrace_regs>>,
}

impl CallRegisters<'_> {
    pub(crate) fn as_ptr(self) -> *mut __arch_ftrace_regs {
        self.regs
    }
}

impl RegisterFile for CallRegisters<'_> {
    /// Returns 0 for a register that ftrace does not save.
    #[inline(always)]
    fn get(self, register: Register) -> u64 {
        let offset = match register.offset() {
            // These registers have the same offsets in both structures.
            offset if offset < NUMBERED_BYTES => offset,
            STACK_POINTER_OFFSET => offset_of!(__arch_ftrace_regs, sp),
            LINK_OFFSET => offset_of!(__arch_ftrace_regs, lr),
            FRAME_POINTER_OFFSET => offset_of!(__arch_ftrace_regs, fp),
            INSTRUCTION_POINTER_OFFSET => offset_of!(__arch_ftrace_regs, pc),
            _ => return 0,
        };
        // SAFETY: The offset is the offset of a word within the structure. By the type invariant,
        // the structure is valid and does not change.
        unsafe { self.regs.byte_add(offset).cast::<u64>().read() }
    }
}

const STACK_POINTER_OFFSET: usize = STACK_POINTER.offset();
const LINK_OFFSET: usize = LINK.offset();
const FRAME_POINTER_OFFSET: usize = FRAME_POINTER.offset();
const INSTRUCTION_POINTER_OFFSET: usize = INSTRUCTION_POINTER.offset();

/// The size of x0 to x8, in bytes.
const NUMBERED_BYTES: usize = 9 * size_of::<u64>();

/// `regs` is the first field of both structures. In the smaller structure, it has these words.
const _: () = {
    let _: fn(&__arch_ftrace_regs) -> &[c_ulong; NUMBERED_BYTES / size_of::<u64>()] =
        |regs| &regs.regs;
    assert!(offset_of!(__arch_ftrace_regs, regs) == 0);
    assert!(offset_of!(user_pt_regs, regs) == 0);
};

/// Borrows the registers that ftrace passed to a handler. C: `arch_ftrace_regs()`.
///
/// # Safety
///
/// ftrace must have filled in `regs`, or other code in the same way. `regs` must stay unchanged for
/// `'a`.
#[inline(always)]
pub(crate) unsafe fn call_registers<'a>(regs: *mut ftrace_regs) -> CallRegisters<'a> {
    // INVARIANT: The caller guarantees that ftrace filled in the structure, and that the structure
    // stays unchanged for `'a`.
    CallRegisters {
        regs: regs.cast(),
        lifetime: PhantomData,
    }
}

/// Sets the only register of the structure that ftrace does not save at the exit of a function: the
/// stack pointer. `return_to_handler` allocates the structure on the stack, so the stack pointer is
/// the address after it.
///
/// C: `arch/arm64/kernel/entry-ftrace.S`.
///
/// # Safety
///
/// ftrace must have filled in `regs` at the exit of a function.
#[inline(always)]
pub(crate) unsafe fn complete_at_exit(regs: *mut ftrace_regs) {
    let regs = regs.cast::<__arch_ftrace_regs>();
    let behind = regs.wrapping_add(1).addr();
    // SAFETY: The caller guarantees that ftrace filled in the structure. Only this task uses the
    // structure, and ftrace does not read this field.
    unsafe { (*regs).sp = behind };
}

/// Returns NULL, because ftrace never saves all registers on arm64. C: `arch_ftrace_get_regs()`.
///
/// # Safety
///
/// ftrace must have filled in `registers`.
#[inline(always)]
pub(crate) unsafe fn whole_registers(_registers: CallRegisters<'_>) -> *mut pt_regs {
    ptr::null_mut()
}

/// The address that a function returns to.
///
/// # Safety
///
/// `registers` must be the registers before the first instruction of a function, or before an
/// instruction that returns.
#[inline(always)]
pub(crate) unsafe fn return_address(registers: impl RegisterFile) -> usize {
    registers.get(LINK) as usize
}

/// The size of an instruction, in bytes.
const INSN_SIZE: usize = 4;

/// The instruction at `address`. `None` if it cannot be read.
fn insn_at(address: usize) -> Option<u32> {
    code_at(address).map(u32::from_le_bytes)
}

/// The address of a kprobe on the entry of the function at `start`. C: `arch_adjust_kprobe_addr()`.
pub(crate) fn probe_entry(start: usize) -> usize {
    start
}

/// The address from which ftrace calls in the function at `start`. The compiler reserves two
/// instructions, maybe after a landing pad. The second instruction is the call. C:
/// `ftrace_call_adjust()`.
pub(crate) fn ftrace_site(start: usize) -> usize {
    let is_pad = insn_at(start).and_then(Class::of) == Some(Class::Bti);
    start.wrapping_add(if is_pad { 2 * INSN_SIZE } else { INSN_SIZE })
}

/// Whether bytes before the function at `start` can belong to this function, and not to the
/// function before it. They do if ftrace can trace the function. Then they hold the address of the
/// `ftrace_ops` that it calls. C: `CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS`.
pub(crate) fn may_have_bytes_before(start: usize) -> bool {
    cfg!(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS) && may_begin_with_site(start)
}

/// Whether the function at `start` can begin with space for ftrace. A kprobe may hide its first
/// instruction. This check is cheaper than a call into ftrace.
fn may_begin_with_site(start: usize) -> bool {
    const SAVE_LINK: u32 = 0xaa1e_03e9;

    insn_at(start).is_some_and(|word| {
        word == SAVE_LINK
            || matches!(
                Class::of(word),
                Some(Class::Nop | Class::Bti | Class::Breakpoint)
            )
    })
}

/// The instruction at the ftrace site while the function is not traced: `nop`.
pub(crate) const FTRACE_SITE: [u8; MCOUNT_INSN_SIZE as usize] = [0x1f, 0x20, 0x03, 0xd5];

/// The name of the code that a function with a kretprobe returns to. C:
/// `is_kretprobe_trampoline()`.
pub(crate) const RETURN_TRAMPOLINE: &CStr = c"__kretprobe_trampoline";

/// Whether a jump can hide instructions. On arm64, no kprobe is a jump, and ftrace writes only
/// calls.
pub(crate) const JUMPS_HIDE: bool = false;

/// Compares the table of crate `probe` with the kernel's structure.
const _: () = {
    assert!(offset_of!(pt_regs, __bindgen_anon_1) == 0);
    assert!(STACK_POINTER_OFFSET == offset_of!(user_pt_regs, sp));
    assert!(INSTRUCTION_POINTER_OFFSET == offset_of!(user_pt_regs, pc));
    assert!(match register("pstate") {
        Some(register) => register.offset() == offset_of!(user_pt_regs, pstate),
        None => false,
    });
    assert!(LINK_OFFSET + size_of::<u64>() == offset_of!(user_pt_regs, sp));
    assert!(PT_REGS_BYTES == size_of::<user_pt_regs>());
};

extern "C" {
    fn ktrace_get_regs(fregs: *mut c_void) -> *mut pt_regs;
}

/// Checks the facts about this processor on which ktrace relies, for
/// [`assumptions`](crate::assumptions). The error names the difference.
pub(crate) fn check() -> Result<(), &'static str> {
    let mut regs = __arch_ftrace_regs::default();
    // SAFETY: The structure is a local variable, which the function only reads.
    let whole = unsafe { ktrace_get_regs((&raw mut regs).cast()) };
    match whole.is_null() {
        true => Ok(()),
        false => Err("ftrace saves other registers"),
    }
}
