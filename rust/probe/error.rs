// SPDX-License-Identifier: GPL-2.0

//! The errors of commands. The messages are those of the kernel.
//!
//! C: the list `ERRORS` in `kernel/trace/trace_probe.h`.

/// Makes the enum, the texts and the list of all kinds from one table.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// The kind of an error.
        ///
        /// A kind of the kernel has the kernel's name (`BAD_REG_NAME` is `BadRegName`). The kernel
        /// does not log the errors that are marked as rkprobe's own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
        }

        impl ErrorKind {
            /// All kinds of errors.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The message in the error log. If the kernel has the same error, it has the same
            /// message.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// A number follows `p`.
    BadMaxactType => "Maxactive is only for function exit",
    /// The characters after `r` are not a number, or are zero. Or characters follow `f` or `t`.
    BadMaxact => "Invalid maxactive number",
    /// The number after `r` exceeds 4096.
    MaxactTooBig => "Maxactive is too big",
    /// The target is malformed, or does not exist.
    BadProbeAddr => "Invalid probed address or symbol",
    /// Several functions have the name.
    NonUniqSymbol => "The symbol is not unique",
    /// A return probe with a target that is not a function's entry.
    BadRetprobe => "Retprobe address must be an function entry",
    /// The name of a tracepoint contains a character that is not a letter, a digit or `_`.
    BadTpName => "Invalid character in tracepoint name",
    /// The suffix after the `%` of a target is unknown.
    BadAddrSuffix => "Invalid probed address suffix",
    /// No name precedes the separator.
    NoGroupName => "Group name is not specified",
    /// The group has more than 63 bytes.
    GroupTooLong => "Group name is too long",
    /// The group contains a character that is not a letter, a digit, `_` or `-`, or begins with a
    /// digit.
    BadGroupName => "Group name must follow the same rules as C identifiers",
    /// No name follows the `:` of the command.
    NoEventName => "Event name is not specified",
    /// The event has more than 63 bytes.
    EventTooLong => "Event name is too long",
    /// The event is not a C identifier.
    BadEventName => "Event name must follow the same rules as C identifiers",
    /// An event of the kernel, or of another kind, has the name.
    EventExist => "Given group/event name is already used by another event",
    /// `$retval` of a probe that is not at a return.
    RetvalOnProbe => "$retval is not available on probe",
    /// `$retval` of a `void` function.
    NoRetval => "This function returns 'void' type",
    /// `$stackN` beyond the stack.
    BadStackNum => "Invalid stack number",
    /// `$argN` with an invalid N.
    BadArgNum => "Invalid argument number",
    /// An unknown variable, or a register that this kind of probe does not have.
    BadVar => "Invalid $-variable specified",
    /// This machine has no such register.
    BadRegName => "Invalid register name",
    /// A malformed number after `@`.
    BadMemAddr => "Invalid memory address",
    /// A malformed number after `\`.
    BadImm => "Invalid immediate value",
    /// A string without the closing quote.
    ImmstrNoClose => "String is not closed with '\"'",
    /// `@+OFF` is for user programs.
    FileOnKprobe => "File offset is not available for kernel probes",
    /// The argument needs too many steps.
    TooManyOps => "Dereference is too much nested",
    /// No `(` follows the offset.
    DerefNeedBrace => "Dereference needs a brace",
    /// The characters before `(` are not an offset.
    BadDerefOffs => "Invalid dereference offset",
    /// The closing `)` is missing.
    DerefOpenBrace => "Dereference brace is not closed",
    /// A dereference of `$comm` or of an immediate string.
    CommCantDeref => "$comm can not be dereferenced",
    /// An unknown kind of fetch argument.
    BadFetchArg => "Invalid fetch argument",
    /// The closing `]` is missing.
    ArrayNoClose => "Array is not closed",
    /// Characters follow the `]`.
    BadArraySuffix => "Array has wrong suffix",
    /// The number of elements is malformed or zero.
    BadArrayNum => "Invalid array size",
    /// More than 64 elements.
    ArrayTooBig => "Array number is too big",
    /// An unknown type.
    BadType => "Unknown type is specified",
    /// A string or an array of a value that is not in memory.
    BadString => "String accepts only memory argument",
    /// `symstr` of a constant, of user memory, or of another value that is not a kernel address.
    BadSymstring => "Symbol String doesn't accept data/userdata",
    /// The bitfield is malformed or does not fit into its number.
    BadBitfield => "Invalid bitfield",
    /// The name has more than 32 bytes.
    ArgNameTooLong => "Argument name is too long",
    /// No name precedes the `=`.
    NoArgName => "Argument name is not specified",
    /// The name is not a C identifier.
    BadArgName => "Argument name must follow the same rules as C identifiers",
    /// Another argument or the record has the name.
    UsedArgName => "This argument name is already used",
    /// The argument has more than 255 bytes after the name.
    ArgTooLong => "Argument expression is too long",
    /// Nothing follows the `=`.
    NoArgBody => "No argument expression",
    /// The offset is inside an instruction.
    BadInsnBndry => "Probe point is not an instruction boundary",
    /// The kernel refuses the probe.
    FailRegProbe => "Failed to register probe event",
    /// The event has entry probes and the command adds a return probe, or the reverse.
    DiffProbeType => "Probe type is different from existing probe",
    /// An argument differs from that of the event's other probes.
    DiffArgType => "Argument type or name is different from existing probe",
    /// The event already has this probe.
    SameProbe => "There is already the exact same probe event",
    /// The target of an event probe does not name a group and an event.
    NoEventInfo => "This requires both group and event name to attach",
    /// The target of the event probe does not exist.
    BadAttachEvent => "Attached event does not exist",
    /// Nothing follows `if`.
    NoEpFilter => "No filter rule after 'if'",
    /// The name of a parameter, a typecast, or `$arg*`, without BTF.
    NosupBtfarg => "BTF is not available or not supported",
    /// An unknown parameter, or characters after `$retval`.
    NoBtfarg => "This variable is not found at this probe point",
    /// BTF does not describe the function or its parameters.
    NoBtfEntry => "No BTF entry for this probe point",
    /// `$argN` or `$arg*` of a probe inside a function.
    NofentryArgs => "$arg* can be used only on function entry or exit",
    /// A second `$arg*`.
    DoubleArgs => "$arg* can be used only once in the parameters",
    /// `->` follows a value that is not a pointer to a structure or union.
    NoPtrStrct => "This is not a pointer to union/structure.",
    /// `.` follows a parameter.
    NosupDatArg => "Non pointer structure/union argument is not supported.",
    /// No `>` follows the `-`.
    BadHyphen => "Failed to parse single hyphen. Forgot '>'?",
    /// The structure has no such member.
    NoBtfField => "This field is not found.",
    /// The type is missing, or has no members.
    BadBtfTid => "Failed to get BTF type info.",
    /// A string of a value that is neither a `char` array nor a pointer to `char`.
    BadType4str => "This type does not fit for string.",
    /// `$comm` or an immediate string with a type other than `string`.
    NeedStringType => "$comm and immediate-string only accepts string type",
    /// The parameters for `$arg*` and `$argN` take more than 128 bytes.
    Args2Long => "$arg* failed because the argument list is too long",
    /// More than 128 arguments.
    TooManyArgs => "Too many arguments are specified",
    /// A probe by ftrace cannot save so many entry arguments.
    TooManyEargs => "Too many entry arguments specified",
    /// The fields take more than 3072 bytes. A string counts with its locator.
    EventTooBig => "Event too big (too many fields?)",
    /// `this_cpu_read()` or `this_cpu_ptr()` in an event probe.
    NosupPercpu => "Per-cpu variable access is only for kernel probes",
    /// The other event has no field of this name.
    NoEventField => "This event field is not found.",
    /// More than 8 nested dereferences, per-CPU accesses and typecasts.
    TooManyNested => "Too many nested typecasts/dereferences",
    /// The field after the comma of a typecast contains `->`.
    TypecastBadArrow => "Typecast field option does not support -> operator",
    /// The field after the comma of a typecast does not start at a byte.
    TypecastNotAligned => "Typecast field option is not byte-aligned",
    /// No `->` follows the value of a typecast.
    TypecastReqField => "Typecast requires a field access",
    /// `@SYM+OFF` without parentheses follows a typecast.
    TypecastSymOffset => "@SYM+/-OFFSET with typecast needs parentheses",

    /// The target of a watchpoint has no `@`. This message and the next three are those of the
    /// proposal for the kernel.
    BadAccessFmt => "Access memory address requires @",
    /// Something else than `w`, `rw` or `x` precedes the `@`.
    BadAccessType => "Bad memory access type",
    /// No watchpoint has this length.
    BadAccessLen => "This memory access length is not supported",
    /// The symbol does not exist, or the address is one of user space.
    BadAccessAddr => "Invalid access memory address",
    /// rkprobe's own: `r@`, which x86-64 does not have.
    ReadAccess => "The processor cannot watch reads alone; use rw",
    /// rkprobe's own: the address is not a multiple of the length.
    UnalignedAccess => "The watched address is not a multiple of the length",
    /// rkprobe's own: a watchpoint on a processor that repeats the access for ever.
    NosupWatch => "Watchpoints are not supported on this architecture",

    /// The file does not take this first letter. The kernel's `dynamic_events` has the same
    /// message.
    NoMatchingType => "No matching dynamic event type",
    /// rkprobe's own: the command ends after its first word.
    NoTarget => "Probed address or symbol is not specified",
    /// rkprobe's own: `PATH:OFFSET` is a target in user space.
    UserTarget => "File and offset are not available with kprobe",
    /// rkprobe's own: no `:` follows `-` or `!`.
    BadDelete => "Delete needs ':' and an event or group name",
    /// rkprobe's own: no name follows `-:`.
    NoDeleteName => "Event or group to delete is not specified",
    /// rkprobe's own: no event or group has this name.
    NoSuchEvent => "No event matches",
    /// rkprobe's own: the event to delete is enabled or referred to.
    EventBusy => "Event is in use",
    /// rkprobe's own: `$elapsed` of a probe that is not at a return.
    ElapsedOnProbe => "$elapsed is only available on return probes",
    /// rkprobe's own: a dereference of `$elapsed`, which is not an address.
    ElapsedCantDeref => "$elapsed can not be dereferenced",
    /// rkprobe's own: `$exit` of a probe that is not on return instructions.
    ExitOnProbe => "$exit is only available on %retinsn probes",
    /// rkprobe's own: an argument of the call, or `$elapsed`, with `%retinsn`, which saves no entry
    /// data.
    EntryOnRetinsn => "A %retinsn probe has no data of the entry; use %return",
    /// rkprobe's own: a number after `r`, for a probe without instances.
    MaxactOnRetinsn => "Maxactive is not for %retinsn probes",
    /// rkprobe's own: `%retinsn` of a function that also has other exits.
    TailCall => "Function leaves by a tail call; use %return",
    /// rkprobe's own: `%retinsn` of a function that never returns.
    NoRetInsn => "Function has no return instruction",
    /// rkprobe's own: `%retinsn` of a function with unknown instructions.
    BadText => "Function text could not be decoded",
    /// rkprobe's own: `%retinsn` of a function with a return instruction that no kprobe can
    /// replace.
    RetInsnRefused => "Return instruction cannot be probed; use %return",
    /// rkprobe's own: `%retinsn` in a kernel that is built without it.
    NosupRetinsn => "Probes on return instructions are not built in (CONFIG_RKPROBE_KRETINSN)",
    /// rkprobe's own: the expanded `%pd` and `%pD` exceed their limit.
    FileNamesTooLong => "%pd and %pD arguments are too long",
    /// rkprobe's own: the source or the end of an object probe is malformed.
    BadEventField => "Field of an event must be GROUP/EVENT.FIELD",
    /// rkprobe's own: the event of a source or an end is no event of rkprobe.
    NoObjectEvent => "There is no such event of rkprobe",
    /// rkprobe's own: a source or an end is an object probe.
    ObjectOfObject => "An object probe cannot be a source of objects",
    /// rkprobe's own: no field of the event has this name.
    NoObjectField => "The event has no such argument",
    /// rkprobe's own: the field of a source or an end cannot be an address.
    BadObjectField => "Field is not a number of 8 bytes",
    /// rkprobe's own: BTF does not know the type of the source.
    NoObjectType => "Type of the object is unknown; write (STRUCT) in front of the source",
    /// rkprobe's own: by BTF, the sources point to different structures.
    DiffObjectType => "Sources have objects of different types; write (STRUCT) in front of them",
    /// rkprobe's own: no function that ftrace can trace takes a pointer to the structure.
    NoObjectFunction => "No function takes a pointer to this structure",
    /// rkprobe's own: the number after `objects=` is out of range.
    BadObjectCount => "Number of objects must be from 1 to 65536",
    /// rkprobe's own: a pattern is empty.
    BadPattern => "Pattern for functions is empty",
    /// rkprobe's own: the number after `hits=` is out of range.
    BadHitCount => "Number of hits must be from 1 to 4294967295",
    /// rkprobe's own: `changes` of an object probe without arguments.
    NoChangingValue => "Nothing can change; write an argument behind the option",
    /// rkprobe's own: `$unchanged` of an object probe that records all calls.
    UnchangedOnAll => "$unchanged needs the option changes",
    /// rkprobe's own: an option of an object probe is in the command twice.
    OptionTwice => "Option can be used only once",
    /// rkprobe's own: `$obj` of a probe that is not an object probe.
    ObjOnProbe => "$obj is only available on object probes",
    /// rkprobe's own: the command contains a NUL.
    NulCharacter => "Invalid character in the command",
}

/// An error number for user space, without its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u16);

impl Errno {
    /// The object does not exist.
    pub const ENOENT: Self = Self(2);
    /// A limit is exceeded.
    pub const E2BIG: Self = Self(7);
    /// Out of memory.
    pub const ENOMEM: Self = Self(12);
    /// The object is in use.
    pub const EBUSY: Self = Self(16);
    /// The object already exists.
    pub const EEXIST: Self = Self(17);
    /// The event to attach to does not exist.
    pub const ENODEV: Self = Self(19);
    /// The command is malformed.
    pub const EINVAL: Self = Self(22);
    /// A number is out of range.
    pub const ERANGE: Self = Self(34);
    /// The address is not the start of an instruction.
    pub const EILSEQ: Self = Self(84);
    /// The feature is not supported.
    pub const EOPNOTSUPP: Self = Self(95);
}
