// SPDX-License-Identifier: GPL-2.0

//! x86-64.

use core::{
    arch::asm,
    mem::{
        offset_of,
        size_of, //
    },
    ptr, //
};

use kernel::{
    bindings::{
        ftrace_regs,
        pt_regs,
        task_struct, //
    },
    ffi::c_void,
    str::CStr,
    sync::atomic::{
        ordering,
        Atomic, //
    },
};

use probe::{
    arch::{
        x86_64::{
            register,
            PT_REGS_BYTES,
            REGISTERS,
            STACK_POINTER, //
        },
        Register,
        Slot, //
    },
    types::Width, //
};

use crate::bindings::{
    exception_table_entry,
    EX_TYPE_DEFAULT,
    MCOUNT_INSN_SIZE, //
};

use super::{
    barrier,
    code_at,
    RegisterFile,
    Registers,
    ReturnCode, //
};

pub(crate) use probe::insn::x86::{
    is_indirect_thunk,
    is_return_thunk,
    references,
    X86 as Decoder, //
};

/// Adds one to this CPU's copy of a per-CPU number. A single instruction does this, so no interrupt
/// and no move to another CPU can come between. C: `raw_cpu_inc()`.
///
/// # Safety
///
/// `counter` must be a live per-CPU allocation of a `u64`.
#[inline(always)]
pub(crate) unsafe fn percpu_increment(counter: *mut u64) {
    // SAFETY: GS holds the offset of this CPU's area. The caller guarantees that the pointer is
    // valid.
    unsafe { asm!("inc qword ptr gs:[{}]", in(reg) counter, options(nostack)) }
}

/// Adds a number to this CPU's copy of a per-CPU counter, as [`percpu_increment`] adds one. C:
/// `raw_cpu_add()`.
///
/// # Safety
///
/// `counter` must be a live per-CPU allocation of a `u64`.
#[inline(always)]
pub(crate) unsafe fn percpu_add(counter: *mut u64, number: u64) {
    // SAFETY: GS holds the offset of this CPU's area. The caller guarantees that the pointer is
    // valid.
    unsafe {
        asm!("add qword ptr gs:[{}], {}", in(reg) counter, in(reg) number, options(nostack));
    }
}

/// Adds a number to a word that only this CPU writes. A single instruction does this, so no
/// interrupt can come between. C: `local64_add()`.
///
/// # Safety
///
/// `word` must be valid, and no other CPU may write it.
#[inline(always)]
pub(crate) unsafe fn local_add(word: *mut u64, number: u64) {
    // SAFETY: The caller guarantees that the pointer is valid.
    unsafe { asm!("add qword ptr [{}], {}", in(reg) word, in(reg) number, options(nostack)) }
}

/// Adds as [`local_add`] does, after all earlier memory accesses. The processor itself keeps the
/// order of stores.
///
/// # Safety
///
/// `word` must be valid, and no other CPU may write it.
#[inline(always)]
pub(crate) unsafe fn local_add_release(word: *mut u64, number: u64) {
    barrier();
    // SAFETY: The caller guarantees that the pointer is valid, and that only this CPU writes.
    unsafe { local_add(word, number) };
}

/// Reads this CPU's copy of a per-CPU pointer. C: `raw_cpu_read()`.
///
/// # Safety
///
/// `pointer` must be a live per-CPU allocation of a pointer.
#[inline(always)]
pub(crate) unsafe fn percpu_read<T>(pointer: *const *mut T) -> *mut T {
    let value;
    // SAFETY: GS holds the offset of this CPU's area. The caller guarantees that the pointer is
    // valid.
    unsafe {
        asm!("mov {}, qword ptr gs:[{}]", out(reg) value, in(reg) pointer,
             options(nostack, readonly, preserves_flags))
    };
    value
}

/// Reads a pointer before all later memory accesses. The processor itself keeps the order of loads.
/// C: `smp_load_acquire()`.
///
/// # Safety
///
/// `place` must be valid, and all writes to it at the same time must be atomic.
#[inline(always)]
pub(crate) unsafe fn load_acquire<T>(place: *const *mut T) -> *mut T {
    // SAFETY: The caller guarantees that the place is valid.
    let value = unsafe { place.read_volatile() };
    barrier();
    value
}

/// Writes a word after all earlier memory accesses. The processor itself keeps the order of stores.
/// C: `smp_store_release()`.
#[inline(always)]
pub(crate) fn store_release(word: &Atomic<u64>, value: u64) {
    barrier();
    // SAFETY: The pointer is from a reference, and all accesses to an `Atomic` are atomic.
    unsafe { word.as_ptr().write_volatile(value) };
}

/// Replaces a word if it is `old`, or else returns it as the error. Each locked instruction is a
/// full barrier, so it has every order. C: `cmpxchg()`.
#[inline(always)]
pub(crate) fn compare_exchange(
    word: &Atomic<u64>,
    old: u64,
    new: u64,
    _: impl ordering::Ordering,
) -> Result<u64, u64> {
    let before;
    // SAFETY: The pointer is from a reference, and all accesses to an `Atomic` are atomic. Without
    // `nomem`, the compiler moves no memory access across the instruction.
    unsafe {
        asm!("lock cmpxchg qword ptr [{}], {}", in(reg) word.as_ptr(), in(reg) new,
             inout("rax") old => before, options(nostack))
    };
    if before == old {
        Ok(before)
    } else {
        Err(before)
    }
}

/// Replaces a word, and returns the word before. On arm64, it orders nothing else. C: `xchg()`.
#[inline(always)]
pub(crate) fn exchange(word: &Atomic<u64>, mut value: u64) -> u64 {
    // SAFETY: The pointer is from a reference, and all accesses to an `Atomic` are atomic. This
    // instruction locks memory without a prefix.
    unsafe {
        asm!("xchg qword ptr [{}], {}", in(reg) word.as_ptr(), inout(reg) value,
             options(nostack, preserves_flags))
    };
    value
}

/// Adds to a word, and returns the word before. The sum wraps. On arm64, it orders nothing else.
/// C: `xadd()`.
#[inline(always)]
pub(crate) fn fetch_add(word: &Atomic<u64>, mut number: u64) -> u64 {
    // SAFETY: The pointer is from a reference, and all accesses to an `Atomic` are atomic.
    unsafe {
        asm!("lock xadd qword ptr [{}], {}", in(reg) word.as_ptr(), inout(reg) number,
             options(nostack))
    };
    number
}

extern "C" {
    static this_cpu_off: usize;
    static current_task: *const c_void;
}

/// Returns the address of this CPU's copy of the per-CPU variable at `address`. If preemption is
/// enabled, the task may move to another CPU at any time. C: `this_cpu_ptr()`.
#[inline(always)]
pub(crate) fn this_cpu(mut address: usize) -> usize {
    if cfg!(CONFIG_SMP) {
        // SAFETY: This reads a per-CPU variable of the kernel, and GS holds the offset of this
        // CPU's area.
        unsafe {
            asm!("add {}, qword ptr gs:[rip + {}]", inout(reg) address, sym this_cpu_off,
                 options(nostack, readonly))
        };
    }
    address
}

/// The current task. C: `current`.
#[inline(always)]
pub(crate) fn current() -> *const task_struct {
    let task;
    // SAFETY: This reads a per-CPU variable of the kernel, and GS holds the offset of this CPU's
    // area.
    unsafe {
        asm!("mov {}, qword ptr gs:[rip + {}]", out(reg) task, sym current_task,
             options(nostack, readonly, preserves_flags))
    };
    task
}

/// Whether ftrace reports the accesses of a watchpoint. The kernel calls any handler of perf for
/// them.
pub(crate) const WATCHES_BY_FTRACE: bool = false;

/// The first and the last symbol of each section with the entry code of exceptions. Debug
/// exceptions are not masked there.
pub(crate) const ENTRY_TEXT: &[(&CStr, &CStr)] = &[
    (c"__entry_text_start", c"__entry_text_end"),
    (c"__noinstr_text_start", c"__noinstr_text_end"),
];

/// Whether [`read_number`] reads most kernel addresses.
pub(crate) const READS_NUMBERS: bool = true;

/// The bytes that the kernel replaces when it optimizes a kprobe: a jump takes the place of the
/// breakpoint.
pub(crate) const KPROBE_JUMP: u64 = 5;

/// The first address that [`read_number`] does not read. The last 16 MiB contain the vsyscall page,
/// where a read can cause a fault that the kernel does not handle. C: `VSYSCALL_ADDR`.
const FIRST_SPECIAL: isize = -(16 << 20);

// The assembly of `read_number` assumes this layout of `struct exception_table_entry`.
const _: () = assert!(size_of::<exception_table_entry>() == 3 * size_of::<u32>());
const _: () = assert!(offset_of!(exception_table_entry, fixup) == size_of::<u32>());
const _: () = assert!(offset_of!(exception_table_entry, data) == 2 * size_of::<u32>());

/// Reads a number from kernel memory with one instruction. After a fault, the number is 0. The
/// bytes above its width are 0. Returns `None` for addresses of user space and for the last kernel
/// addresses: only `copy_from_kernel_nofault()` can check whether they are readable. Any context.
///
/// A failed read causes a page fault. For an address that no memory can have, it causes a general
/// protection fault. For kernel addresses, the handlers of both search the exception tables first,
/// even with page faults enabled.
///
/// C: `arch_get_kernel_nofault()`.
#[inline(always)]
pub(crate) fn read_number(address: usize, width: Width) -> Option<u64> {
    /// Expands to the instruction `$load` from `address`, and its entry in the exception table.
    macro_rules! read {
        ($load:literal) => {{
            let value: u64;
            // SAFETY: The instruction only reads memory, at a kernel address. After a fault, the
            // kernel continues at label 3, as the entry in `__ex_table` says. The entry is a
            // `struct exception_table_entry`.
            unsafe {
                asm!(
                    "xor {value:e}, {value:e}",
                    concat!("2: ", $load),
                    "3:",
                    ".pushsection __ex_table, \"a\"",
                    ".balign 4",
                    ".long 2b - .",
                    ".long 3b - .",
                    ".long {handler}",
                    ".popsection",
                    value = out(reg) value,
                    address = in(reg) address,
                    handler = const EX_TYPE_DEFAULT,
                    options(nostack, readonly),
                )
            };
            value
        }};
    }

    if address as isize >= FIRST_SPECIAL {
        return None;
    }
    // Each test takes two instructions. The compiler's code for a match takes more.
    let bytes = width.bytes();
    Some(if bytes & 8 != 0 {
        read!("mov {value:r}, qword ptr [{address}]")
    } else if bytes & 4 != 0 {
        read!("mov {value:e}, dword ptr [{address}]")
    } else if bytes & 2 != 0 {
        read!("movzx {value:e}, word ptr [{address}]")
    } else {
        read!("movzx {value:e}, byte ptr [{address}]")
    })
}

/// Returns the [`CodePlace`](super::CodePlace) of the code that this function is inlined into.
#[inline(always)]
pub(crate) fn place() -> super::CodePlace {
    let (code, frame);
    // SAFETY: Both instructions only write to their registers.
    unsafe {
        asm!("lea {}, [rip]", "lea {}, [rsp - 8]", out(reg) code, out(reg) frame,
             options(nomem, nostack, preserves_flags))
    };
    super::CodePlace { code, frame }
}

/// Writes the addresses of the callers of the code at `ip`, which has these registers. ftrace and
/// the tracepoint stub save the frame pointer, too. Returns the number of addresses, or 0 if the
/// walk must begin in the handler. C: `unwind_start()`.
pub(crate) fn callers(
    registers: impl RegisterFile,
    ip: usize,
    code: &ReturnCode,
    to: &mut [usize],
) -> usize {
    let (sp, bp) = (registers.get(STACK_POINTER), registers.get(FRAME_POINTER));
    // SAFETY: The slice has space for this number of addresses. The unwinder checks all addresses
    // that it reads.
    let len = unsafe { ktrace_callers(ip, sp, bp, to.as_mut_ptr(), to.len(), code) };
    len.min(to.len())
}

/// The place of the return address, at the first instruction of a function and at one that returns.
pub(crate) const RETURN_ADDRESS: Slot = Slot::Stack(0);

/// The register that the kernel knows a call by, at the same instructions: see
/// [`true_caller`](super::true_caller).
pub(crate) const CALL_PLACE: Register = STACK_POINTER;

/// As [`true_caller`](super::true_caller) does. The registers are those after the return.
pub(crate) fn true_caller_at_return(
    registers: impl RegisterFile,
    address: usize,
    code: &ReturnCode,
) -> usize {
    let place = registers.get(STACK_POINTER);
    let place = place.wrapping_sub(size_of::<usize>() as u64);
    super::true_caller(address, place, code)
}

/// The frame pointer, or the register that a function uses instead of it.
const FRAME_POINTER: Register = match register("bp") {
    Some(register) => register,
    None => panic!("there is no such register"),
};

/// The registers that ftrace saves: a `struct pt_regs`, of which some fields may be missing.
pub(crate) type CallRegisters<'a> = &'a Registers;

/// Borrows the registers that ftrace passed to a handler. C: `arch_ftrace_regs()`.
///
/// # Safety
///
/// ftrace must have filled in `regs`, or other code in the same way. `regs` must stay unchanged for
/// `'a`.
#[inline(always)]
pub(crate) unsafe fn call_registers<'a>(regs: *mut ftrace_regs) -> CallRegisters<'a> {
    // SAFETY: `struct ftrace_regs` is a `struct pt_regs` on x86-64. The caller guarantees that it
    // stays valid and unchanged.
    unsafe { Registers::from_raw(regs.cast()) }
}

/// Does nothing: on x86-64, ktrace adds no register at the exit of a function.
///
/// # Safety
///
/// ftrace must have filled in `regs` at the exit of a function.
#[inline(always)]
pub(crate) unsafe fn complete_at_exit(_regs: *mut ftrace_regs) {}

/// The registers if ftrace saved all of them, otherwise NULL. C: `arch_ftrace_get_regs()`.
///
/// # Safety
///
/// ftrace must have filled in `registers`.
#[inline(always)]
pub(crate) unsafe fn whole_registers(registers: CallRegisters<'_>) -> *mut pt_regs {
    let regs = registers.as_ptr();
    // SAFETY: The caller guarantees that ftrace filled in the registers. ftrace sets the code
    // segment to 0 if it did not save all registers.
    if unsafe { (*regs).__bindgen_anon_1.cs } == 0 {
        ptr::null_mut()
    } else {
        regs
    }
}

/// The address that a function returns to.
///
/// # Safety
///
/// `registers` must be the registers before the first instruction of a function, or before an
/// instruction that returns.
#[inline(always)]
pub(crate) unsafe fn return_address(registers: impl RegisterFile) -> usize {
    let place = registers.get(STACK_POINTER) as usize as *const usize;
    // SAFETY: The caller guarantees that the stack pointer belongs to such an instruction. At such
    // an instruction, the stack pointer is the address of the return address.
    unsafe { place.read() }
}

/// ENDBR64, and the instruction that the kernel writes over an unused ENDBR64 (`gen_endbr_poison()`
/// in `arch/x86/include/asm/ibt.h`).
const LANDING_PADS: [[u8; 4]; 2] = [[0xf3, 0x0f, 0x1e, 0xfa], [0x0f, 0x1f, 0x40, 0xd6]];

/// The address of the first instruction of the function at `start`, after a landing pad.
fn behind_landing_pad(start: usize) -> usize {
    match code_at(start) {
        Some(code) if LANDING_PADS.contains(&code) => start.wrapping_add(code.len()),
        _ => start,
    }
}

/// The address of a kprobe on the entry of the function at `start`. C: `arch_adjust_kprobe_addr()`.
pub(crate) fn probe_entry(start: usize) -> usize {
    behind_landing_pad(start)
}

/// The address from which ftrace calls in the function at `start`. C: `ftrace_location()`.
pub(crate) fn ftrace_site(start: usize) -> usize {
    behind_landing_pad(start)
}

/// Whether bytes before the function at `start` can belong to this function, and not to the
/// function before it. The kernel has symbols for such bytes. `rkprobe.ko` has none: in it, such
/// bytes are the end of the function before.
pub(crate) fn may_have_bytes_before(_start: usize) -> bool {
    false
}

/// The instruction at the ftrace site while the function is not traced. C: `BYTES_NOP5`.
pub(crate) const FTRACE_SITE: [u8; MCOUNT_INSN_SIZE as usize] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// The name of the code that a function with a kretprobe returns to. C:
/// `is_kretprobe_trampoline()`.
pub(crate) const RETURN_TRAMPOLINE: &CStr = c"arch_rethook_trampoline";

/// Whether a jump can hide instructions. An optimized kprobe is a jump, and ftrace can write jumps.
pub(crate) const JUMPS_HIDE: bool = true;

/// Compares the table of crate `probe` with the kernel's structure.
macro_rules! assert_offsets {
    ($($name:literal: $field:ident),* $(,)?) => {
        $(const _: () = assert!(match register($name) {
            Some(register) => register.offset() == offset_of!(pt_regs, $field),
            None => false,
        });)*
        const _: () = assert!(REGISTERS.len() == [$($name),*].len());
        const _: () = assert!(PT_REGS_BYTES <= size_of::<pt_regs>());
    };
}

assert_offsets! {
    "r15": r15, "r14": r14, "r13": r13, "r12": r12, "bp": bp, "bx": bx, "r11": r11, "r10": r10,
    "r9": r9, "r8": r8, "ax": ax, "cx": cx, "dx": dx, "si": si, "di": di, "orig_ax": orig_ax,
    "ip": ip, "flags": flags, "sp": sp, "cs": __bindgen_anon_1, "ss": __bindgen_anon_2,
}

extern "C" {
    fn ktrace_landing_pads_match(endbr: u32, sealed: u32) -> bool;
    fn ktrace_callers(
        ip: usize,
        sp: u64,
        bp: u64,
        to: *mut usize,
        len: usize,
        code: &ReturnCode,
    ) -> usize;
    fn ktrace_get_regs(fregs: *mut c_void) -> *mut pt_regs;
}

/// Checks the facts about this processor on which ktrace relies, for
/// [`assumptions`](crate::assumptions). The error names the difference.
pub(crate) fn check() -> Result<(), &'static str> {
    if !landing_pads_match() {
        return Err("landing pads look different");
    }
    if !registers_match() {
        return Err("ftrace marks its registers differently");
    }
    Ok(())
}

/// Whether the kernel has the same bytes for used and unused landing pads.
fn landing_pads_match() -> bool {
    let [endbr, sealed] = LANDING_PADS.map(u32::from_ne_bytes);
    // SAFETY: The function has no requirements.
    unsafe { ktrace_landing_pads_match(endbr, sealed) }
}

/// Whether ftrace marks complete registers as [`whole_registers`] expects.
fn registers_match() -> bool {
    let is_same = |mut regs: pt_regs| {
        let regs = &raw mut regs;
        // SAFETY: `regs` points to a local `struct pt_regs`, which both functions only read.
        unsafe { whole_registers(call_registers(regs.cast())) == ktrace_get_regs(regs.cast()) }
    };
    let mut whole = pt_regs::default();
    whole.__bindgen_anon_1.cs = 1;
    is_same(pt_regs::default()) && is_same(whole)
}
