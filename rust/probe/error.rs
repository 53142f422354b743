// SPDX-License-Identifier: GPL-2.0

//! What can be wrong with a command: the texts are those of the kernel.
//!
//! C: the list `ERRORS` in `kernel/trace/trace_probe.h`.

/// Makes the enum, the texts and the list of all kinds from one table.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// What is wrong.
        ///
        /// The kinds of C are named as there (`BAD_REG_NAME` is `BadRegName`). Those marked as
        /// ours stand for errors that C returns without a word in its log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
        }

        impl ErrorKind {
            /// All there are.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The text in the error log; for the kinds of C exactly that of C.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// `p` with a number behind it.
    BadMaxactType => "Maxactive is only for function exit",
    /// The number behind `r` is none, or is zero; something behind `f` or `t`.
    BadMaxact => "Invalid maxactive number",
    /// The number behind `r` is over 4096.
    MaxactTooBig => "Maxactive is too big",
    /// The target is malformed, or does not exist.
    BadProbeAddr => "Invalid probed address or symbol",
    /// Several functions have the name.
    NonUniqSymbol => "The symbol is not unique",
    /// A return probe that is not at the entry of a function.
    BadRetprobe => "Retprobe address must be an function entry",
    /// Something else than letters, digits and `_` in the name of a tracepoint.
    BadTpName => "Invalid character in tracepoint name",
    /// Something else than `return` behind the `%` of a target.
    BadAddrSuffix => "Invalid probed address suffix",
    /// Nothing in front of the separator.
    NoGroupName => "Group name is not specified",
    /// A group of more than 63 bytes.
    GroupTooLong => "Group name is too long",
    /// A group with other characters than letters, digits, `_` and `-`.
    BadGroupName => "Group name must follow the same rules as C identifiers",
    /// Nothing behind the `:` of the command.
    NoEventName => "Event name is not specified",
    /// An event of more than 63 bytes.
    EventTooLong => "Event name is too long",
    /// An event that is no C identifier.
    BadEventName => "Event name must follow the same rules as C identifiers",
    /// An event that is not ours has the name.
    EventExist => "Given group/event name is already used by another event",
    /// `$retval` where nothing returns.
    RetvalOnProbe => "$retval is not available on probe",
    /// `$retval` of a function that returns nothing.
    NoRetval => "This function returns 'void' type",
    /// `$stackN` beyond the stack.
    BadStackNum => "Invalid stack number",
    /// `$argN` with an N that cannot be.
    BadArgNum => "Invalid argument number",
    /// Another word behind `$`; a register where not all are there.
    BadVar => "Invalid $-variable specified",
    /// No register of this machine.
    BadRegName => "Invalid register name",
    /// `@` and something that starts as a number.
    BadMemAddr => "Invalid memory address",
    /// `\` and no number.
    BadImm => "Invalid immediate value",
    /// `\"` without the other quote at the end.
    ImmstrNoClose => "String is not closed with '\"'",
    /// `@+OFF`, which is for user space.
    FileOnKprobe => "File offset is not available for kernel probes",
    /// More steps than an argument may have.
    TooManyOps => "Dereference is too much nested",
    /// An offset without `(`.
    DerefNeedBrace => "Dereference needs a brace",
    /// What stands in front of `(` is no offset.
    BadDerefOffs => "Invalid dereference offset",
    /// A `(` without `)`.
    DerefOpenBrace => "Dereference brace is not closed",
    /// `$comm`, or an immediate string, within a dereference.
    CommCantDeref => "$comm can not be dereferenced",
    /// No way to fetch this.
    BadFetchArg => "Invalid fetch argument",
    /// A `[` without `]`.
    ArrayNoClose => "Array is not closed",
    /// Something behind `]`.
    BadArraySuffix => "Array has wrong suffix",
    /// The number of elements is none, or is zero.
    BadArrayNum => "Invalid array size",
    /// More than 64 elements.
    ArrayTooBig => "Array number is too big",
    /// No such type.
    BadType => "Unknown type is specified",
    /// A string or an array of something that is not in memory.
    BadString => "String accepts only memory argument",
    /// `symstr` of an address or a number that stands in the command, of user memory, and so on.
    BadSymstring => "Symbol String doesn't accept data/userdata",
    /// A bitfield that is malformed or does not fit in its number.
    BadBitfield => "Invalid bitfield",
    /// More than 32 bytes in front of `=`.
    ArgNameTooLong => "Argument name is too long",
    /// Nothing in front of `=`.
    NoArgName => "Argument name is not specified",
    /// A name that is no C identifier.
    BadArgName => "Argument name must follow the same rules as C identifiers",
    /// A name that another argument or the record has.
    UsedArgName => "This argument name is already used",
    /// More than 255 bytes behind the name.
    ArgTooLong => "Argument expression is too long",
    /// Nothing behind `=`.
    NoArgBody => "No argument expression",
    /// The offset is within an instruction.
    BadInsnBndry => "Probe point is not an instruction boundary",
    /// The kernel refuses the probe.
    FailRegProbe => "Failed to register probe event",
    /// An entry and a return probe of one name.
    DiffProbeType => "Probe type is different from existing probe",
    /// An argument differs from that of the other probes of the event.
    DiffArgType => "Argument type or name is different from existing probe",
    /// The event has this probe.
    SameProbe => "There is already the exact same probe event",
    /// An event probe whose target is not the name of a group and of an event.
    NoEventInfo => "This requires both group and event name to attach",
    /// There is no such event to attach to.
    BadAttachEvent => "Attached event does not exist",
    /// Nothing behind `if`.
    NoEpFilter => "No filter rule after 'if'",
    /// The name of a parameter, a typecast, or `$arg*`, which takes BTF.
    NosupBtfarg => "BTF is not available or not supported",
    /// No such variable: `$retval` with something behind it.
    NoBtfarg => "This variable is not found at this probe point",
    /// The name of a parameter of a function that BTF does not have, or not with parameters.
    NoBtfEntry => "No BTF entry for this probe point",
    /// `$argN` or `$arg*` within a function.
    NofentryArgs => "$arg* can be used only on function entry or exit",
    /// A second `$arg*`.
    DoubleArgs => "$arg* can be used only once in the parameters",
    /// `->` behind what is no pointer.
    NoPtrStrct => "This is not a pointer to union/structure.",
    /// `.` behind a parameter.
    NosupDatArg => "Non pointer structure/union argument is not supported.",
    /// `-` without `>`.
    BadHyphen => "Failed to parse single hyphen. Forgot '>'?",
    /// No such member.
    NoBtfField => "This field is not found.",
    /// A type that is missing, or has no members.
    BadBtfTid => "Failed to get BTF type info.",
    /// A string of what is neither bytes nor a pointer to them.
    BadType4str => "This type does not fit for string.",
    /// `$comm` or an immediate string with a type other than `string`.
    NeedStringType => "$comm and immediate-string only accepts string type",
    /// The names of the parameters that `$arg*` and `$argN` stand for are more than 128 bytes.
    Args2Long => "$arg* failed because the argument list is too long",
    /// More than 128 arguments.
    TooManyArgs => "Too many arguments are specified",
    /// More entry arguments than a probe of functions by ftrace can save.
    TooManyEargs => "Too many entry arguments specified",
    /// More than 3072 bytes of arguments, strings counted by their locators.
    EventTooBig => "Event too big (too many fields?)",
    /// `this_cpu_read()` or `this_cpu_ptr()` of an event probe.
    NosupPercpu => "Per-cpu variable access is only for kernel probes",
    /// A name without a `$` that is no field of the event.
    NoEventField => "This event field is not found.",
    /// More than 8 dereferences, per-CPU accesses and typecasts within each other.
    TooManyNested => "Too many nested typecasts/dereferences",
    /// `->` in the field behind the comma of a typecast.
    TypecastBadArrow => "Typecast field option does not support -> operator",
    /// That field does not start at a byte.
    TypecastNotAligned => "Typecast field option is not byte-aligned",
    /// A typecast without `->` behind its value.
    TypecastReqField => "Typecast requires a field access",
    /// `@SYM+OFF` behind a typecast, without parentheses.
    TypecastSymOffset => "@SYM+/-OFFSET with typecast needs parentheses",

    /// The target of a watchpoint without an `@`. This text and the next three are those of the
    /// proposal for the kernel.
    BadAccessFmt => "Access memory address requires @",
    /// Something else than `w`, `rw` or `x` in front of the `@`.
    BadAccessType => "Bad memory access type",
    /// A length that no watchpoint has.
    BadAccessLen => "This memory access length is not supported",
    /// No such symbol, or an address of user space.
    BadAccessAddr => "Invalid access memory address",
    /// Ours: `r@`, which x86-64 does not have.
    ReadAccess => "The processor cannot watch reads alone; use rw",
    /// Ours: an address that is no multiple of the length.
    UnalignedAccess => "The watched address is not a multiple of the length",
    /// Ours: watchpoints on a processor that repeats the access for ever.
    NosupWatch => "Watchpoints are not supported on this architecture",

    /// Another first letter than the file takes. The text is that of C's `dynamic_events`.
    NoMatchingType => "No matching dynamic event type",
    /// Ours: the command ends behind its first word.
    NoTarget => "Probed address or symbol is not specified",
    /// Ours: `PATH:OFFSET` is a target for user space.
    UserTarget => "File and offset are not available with kprobe",
    /// Ours: `-` or `!` without a `:` behind it.
    BadDelete => "Delete needs ':' and an event or group name",
    /// Ours: `-:` without a name.
    NoDeleteName => "Event or group to delete is not specified",
    /// Ours: nothing to delete goes by this name.
    NoSuchEvent => "No event matches",
    /// Ours: what is to be deleted is enabled, or referred to.
    EventBusy => "Event is in use",
    /// Ours: `$elapsed` of a probe that is not at a return.
    ElapsedOnProbe => "$elapsed is only available on return probes",
    /// Ours: a dereference of `$elapsed`, which is no address.
    ElapsedCantDeref => "$elapsed can not be dereferenced",
    /// Ours: `$exit` of a probe that is not on return instructions.
    ExitOnProbe => "$exit is only available on %retinsn probes",
    /// Ours: an argument of the call, or `$elapsed`. A probe on return instructions saves no entry
    /// data.
    EntryOnRetinsn => "A %retinsn probe keeps nothing from the entry; use %return",
    /// Ours: a number behind `r` of a probe that has no instances.
    MaxactOnRetinsn => "Maxactive is not for %retinsn probes",
    /// Ours: a probe on return instructions of a function that also leaves by other ways.
    TailCall => "Function leaves by a tail call; use %return",
    /// Ours: such a probe of a function that does not return.
    NoRetInsn => "Function has no return instruction",
    /// Ours: such a probe of a function whose instructions are not all understood.
    BadText => "Function text could not be decoded",
    /// Ours: such a probe of a function with a return instruction that no kprobe can replace.
    RetInsnRefused => "Return instruction cannot be probed; use %return",
    /// Ours: such a probe in a kernel that is built without them.
    NosupRetinsn => "Probes on return instructions are not built in (CONFIG_RKPROBE_KRETINSN)",
    /// Ours: no room is left to write a `%pd` or `%pD` out.
    FileNamesTooLong => "%pd and %pD arguments are too long",
    /// Ours: a NUL in the command.
    NulCharacter => "Invalid character in the command",
}

/// The number of an error for user space, without its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u16);

impl Errno {
    /// No such thing.
    pub const ENOENT: Self = Self(2);
    /// Too much of something.
    pub const E2BIG: Self = Self(7);
    /// No room.
    pub const ENOMEM: Self = Self(12);
    /// In use.
    pub const EBUSY: Self = Self(16);
    /// There already.
    pub const EEXIST: Self = Self(17);
    /// No such device; of an event to attach to.
    pub const ENODEV: Self = Self(19);
    /// Malformed.
    pub const EINVAL: Self = Self(22);
    /// A number that does not fit.
    pub const ERANGE: Self = Self(34);
    /// Not at an instruction.
    pub const EILSEQ: Self = Self(84);
    /// Not supported.
    pub const EOPNOTSUPP: Self = Self(95);
}
