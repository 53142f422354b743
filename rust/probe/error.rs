// SPDX-License-Identifier: GPL-2.0

//! The errors of commands, with the messages of the kernel.
//!
//! C: the list `ERRORS` in `kernel/trace/trace_probe.h`.

/// Creates the enumeration, the messages and the list of all kinds from one table.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// The kind of an error.
        ///
        /// A kind of the kernel keeps the kernel's name: `BAD_REG_NAME` is `BadRegName`. Kinds with
        /// the mark "rkprobe's own" report errors that the kernel does not log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
        }

        impl ErrorKind {
            /// All kinds of errors.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The message in the error log. Equals the kernel's message if the kernel has the same
            /// error.
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
    /// The text after `r` is not a number, or is zero. Or text follows `f` or `t`.
    BadMaxact => "Invalid maxactive number",
    /// The number after `r` exceeds 4096.
    MaxactTooBig => "Maxactive is too big",
    /// The target is malformed, or does not exist.
    BadProbeAddr => "Invalid probed address or symbol",
    /// Several functions have this name.
    NonUniqSymbol => "The symbol is not unique",
    /// The target of a return probe is not a function's entry.
    BadRetprobe => "Retprobe address must be an function entry",
    /// The name of a tracepoint contains a character that is not a letter, a digit or `_`.
    BadTpName => "Invalid character in tracepoint name",
    /// The suffix after the `%` of a target is unknown.
    BadAddrSuffix => "Invalid probed address suffix",
    /// No name precedes the separator.
    NoGroupName => "Group name is not specified",
    /// The group has more than 63 bytes.
    GroupTooLong => "Group name is too long",
    /// The group contains a character that is not a letter, a digit, `_` or `-`, or starts with a
    /// digit.
    BadGroupName => "Group name must follow the same rules as C identifiers",
    /// No name follows the `:` of the command.
    NoEventName => "Event name is not specified",
    /// The event has more than 63 bytes.
    EventTooLong => "Event name is too long",
    /// The event is not a C identifier.
    BadEventName => "Event name must follow the same rules as C identifiers",
    /// An event of the kernel, or of another kind, already has this name.
    EventExist => "Given group/event name is already used by another event",
    /// The command uses `$retval`, but the probe is not at a return.
    RetvalOnProbe => "$retval is not available on probe",
    /// The command uses `$retval`, but the function returns `void`.
    NoRetval => "This function returns 'void' type",
    /// The N of `$stackN` exceeds the stack.
    BadStackNum => "Invalid stack number",
    /// The N of `$argN` is invalid.
    BadArgNum => "Invalid argument number",
    /// The variable is unknown. Or this kind of probe does not have the register.
    BadVar => "Invalid $-variable specified",
    /// This architecture has no such register.
    BadRegName => "Invalid register name",
    /// The number after `@` is malformed.
    BadMemAddr => "Invalid memory address",
    /// The number after `\` is malformed.
    BadImm => "Invalid immediate value",
    /// The string has no closing quote.
    ImmstrNoClose => "String is not closed with '\"'",
    /// The argument is `@+OFF`, which exists only for user programs.
    FileOnKprobe => "File offset is not available for kernel probes",
    /// The argument needs too many steps.
    TooManyOps => "Dereference is too much nested",
    /// No `(` follows the offset.
    DerefNeedBrace => "Dereference needs a brace",
    /// The characters before `(` are not an offset.
    BadDerefOffs => "Invalid dereference offset",
    /// The closing `)` is missing.
    DerefOpenBrace => "Dereference brace is not closed",
    /// The command dereferences `$comm` or an immediate string.
    CommCantDeref => "$comm can not be dereferenced",
    /// The kind of the fetch argument is unknown.
    BadFetchArg => "Invalid fetch argument",
    /// The closing `]` is missing.
    ArrayNoClose => "Array is not closed",
    /// Characters follow the `]`.
    BadArraySuffix => "Array has wrong suffix",
    /// The number of elements is malformed or zero.
    BadArrayNum => "Invalid array size",
    /// The array has more than 64 elements.
    ArrayTooBig => "Array number is too big",
    /// The type is unknown.
    BadType => "Unknown type is specified",
    /// The value of a string or an array is not in memory.
    BadString => "String accepts only memory argument",
    /// The value of a `symstr` is a constant, user memory, or another value that is not a kernel
    /// address.
    BadSymstring => "Symbol String doesn't accept data/userdata",
    /// The bitfield is malformed, or does not fit into its number.
    BadBitfield => "Invalid bitfield",
    /// The name has more than 32 bytes.
    ArgNameTooLong => "Argument name is too long",
    /// No name precedes the `=`.
    NoArgName => "Argument name is not specified",
    /// The name is not a C identifier.
    BadArgName => "Argument name must follow the same rules as C identifiers",
    /// Another argument, or a field that all records have, has this name.
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
    /// The argument differs from the same argument of the event's other probes.
    DiffArgType => "Argument type or name is different from existing probe",
    /// The event already has this probe.
    SameProbe => "There is already the exact same probe event",
    /// The target of an event probe does not name a group and an event.
    NoEventInfo => "This requires both group and event name to attach",
    /// The target of the event probe does not exist.
    BadAttachEvent => "Attached event does not exist",
    /// Nothing follows `if`.
    NoEpFilter => "No filter rule after 'if'",
    /// The name of a parameter, a typecast or `$arg*` needs BTF, which is not available.
    NosupBtfarg => "BTF is not available or not supported",
    /// The function has no such parameter. Or characters follow `$retval`.
    NoBtfarg => "This variable is not found at this probe point",
    /// BTF does not describe the function or its parameters.
    NoBtfEntry => "No BTF entry for this probe point",
    /// The command uses `$argN` or `$arg*`, but the probe is inside a function.
    NofentryArgs => "$arg* can be used only on function entry or exit",
    /// The command has a second `$arg*`.
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
    /// The value of a string is neither a `char` array nor a pointer to `char`.
    BadType4str => "This type does not fit for string.",
    /// `$comm` or an immediate string has a type other than `string`.
    NeedStringType => "$comm and immediate-string only accepts string type",
    /// The parameter names for `$arg*` and `$argN` take more than 128 bytes.
    Args2Long => "$arg* failed because the argument list is too long",
    /// The command has more than 128 arguments.
    TooManyArgs => "Too many arguments are specified",
    /// The number of entry arguments exceeds the number that an ftrace probe can save.
    TooManyEargs => "Too many entry arguments specified",
    /// The fields take more than 3072 bytes. A string counts as its locator.
    EventTooBig => "Event too big (too many fields?)",
    /// An event probe uses `this_cpu_read()` or `this_cpu_ptr()`.
    NosupPercpu => "Per-cpu variable access is only for kernel probes",
    /// The attached event has no field with this name.
    NoEventField => "This event field is not found.",
    /// More than 8 dereferences, per-CPU accesses and typecasts are nested.
    TooManyNested => "Too many nested typecasts/dereferences",
    /// The field after the comma of a typecast contains `->`.
    TypecastBadArrow => "Typecast field option does not support -> operator",
    /// The field after the comma of a typecast does not start at a byte.
    TypecastNotAligned => "Typecast field option is not byte-aligned",
    /// No `->` follows the value of a typecast.
    TypecastReqField => "Typecast requires a field access",
    /// `@SYM+OFF` without parentheses follows a typecast.
    TypecastSymOffset => "@SYM+/-OFFSET with typecast needs parentheses",

    /// The target of a watchpoint has no `@`. This message and the next three come from the
    /// proposed watchpoint probes of the kernel.
    BadAccessFmt => "Access memory address requires @",
    /// The text before the `@` is not `r`, `w`, `rw` or `x`.
    BadAccessType => "Bad memory access type",
    /// Watchpoints cannot have this length.
    BadAccessLen => "This memory access length is not supported",
    /// The symbol does not exist, or the address is in user space.
    BadAccessAddr => "Invalid access memory address",
    /// rkprobe's own: the access is `r`, which x86-64 does not support.
    ReadAccess => "The processor cannot watch reads alone; use rw",
    /// rkprobe's own: the address is not a multiple of the length.
    UnalignedAccess => "The watched address is not a multiple of the length",
    /// rkprobe's own: a hit of this memory in the entry of an exception would crash the kernel.
    EntryMemory => "The entry of exceptions uses this memory",
    /// rkprobe's own: the memory can be a stack, which the entry of exceptions uses.
    NoDataMemory => "Stacks and memory of vmalloc cannot be watched",
    /// rkprobe's own: this processor would repeat some watched accesses without end.
    NosupWatch => "Watchpoints need a processor with atomic instructions (LSE)",

    /// The file does not accept this first letter. The kernel's `dynamic_events` has the same
    /// message.
    NoMatchingType => "No matching dynamic event type",
    /// rkprobe's own: the command ends after its first word.
    NoTarget => "Probed address or symbol is not specified",
    /// rkprobe's own: the target is `PATH:OFFSET`, a target in user space.
    UserTarget => "File and offset are not available with kprobe",
    /// rkprobe's own: no `:` follows `-` or `!`.
    BadDelete => "Delete needs ':' and an event or group name",
    /// rkprobe's own: no name follows `-:`.
    NoDeleteName => "Event or group to delete is not specified",
    /// rkprobe's own: no event or group has this name.
    NoSuchEvent => "No event matches",
    /// rkprobe's own: the event to remove is enabled, or has another user.
    EventBusy => "Event is in use",
    /// rkprobe's own: the command uses `$elapsed`, but the probe is not at a return.
    ElapsedOnProbe => "$elapsed is only available on return probes",
    /// rkprobe's own: the command dereferences `$elapsed`, which is not an address.
    ElapsedCantDeref => "$elapsed can not be dereferenced",
    /// rkprobe's own: the command uses `$exit`, but the probe does not know the return instruction.
    ExitOnProbe => "$exit is only available on %retinsn and %path probes",
    /// rkprobe's own: the command has more than 8 arguments of type `errno`.
    TooManyErrnos => "Too many arguments of type errno",
    /// rkprobe's own: the command uses `$caller`, but the probe is inside a function, or in none.
    CallerInside => "$caller is only available at the entry or the return of a function",
    /// rkprobe's own: a `%retinsn` probe uses an argument of the call, or `$elapsed`. Such a probe
    /// saves no entry data.
    EntryOnRetinsn => "A %retinsn probe has no data of the entry; use %return",
    /// rkprobe's own: a number follows `r`, but a `%retinsn` probe has no instances.
    MaxactOnRetinsn => "Maxactive is not for %retinsn probes",
    /// rkprobe's own: the function of a `%retinsn` probe also has other exits.
    TailCall => "Function leaves by a tail call; use %return",
    /// rkprobe's own: the function of a `%retinsn` probe never returns.
    NoRetInsn => "Function has no return instruction",
    /// rkprobe's own: the function of a `%retinsn`, `%blocks` or `%path` probe contains unknown
    /// instructions.
    BadText => "Function text could not be decoded",
    /// rkprobe's own: the function of a `%retinsn` probe has a return instruction that a kprobe
    /// cannot replace.
    RetInsnRefused => "Return instruction cannot be probed; use %return",
    /// rkprobe's own: the target of a `%blocks` or `%path` probe is not the entry of a function.
    BlocksInside => "%blocks and %path need the entry of a function",
    /// rkprobe's own: the function of a `%blocks` or `%path` probe jumps to an address in a
    /// register or in memory.
    UnknownBlocks => "Function jumps to an unknown address, so its blocks are unknown",
    /// rkprobe's own: the function of a `%blocks` or `%path` probe has more blocks than an event
    /// can probe.
    TooManyBlocks => "Function has more than 1024 blocks",
    /// rkprobe's own: the kernel is built without `%retinsn`, `%blocks` and `%path`.
    NosupRetinsn => "%retinsn, %blocks and %path are not built in (CONFIG_RKPROBE_KRETINSN)",
    /// rkprobe's own: the expansions of `%pd` and `%pD` exceed their limit.
    FileNamesTooLong => "%pd and %pD arguments are too long",
    /// rkprobe's own: the source or the end of an object probe is malformed.
    BadEventField => "Field of an event must be GROUP/EVENT.FIELD",
    /// rkprobe's own: the event of a source or an end does not belong to rkprobe.
    NoObjectEvent => "There is no such event of rkprobe",
    /// rkprobe's own: a source or an end is an object probe or a call tree.
    ObjectOfObject => "An object probe or a call tree cannot be a source of objects",
    /// rkprobe's own: the event has no field with this name.
    NoObjectField => "The event has no such argument",
    /// rkprobe's own: the field of a source or an end cannot be an address.
    BadObjectField => "Field is not a number of 8 bytes",
    /// rkprobe's own: BTF has no type for the source.
    NoObjectType => "Type of the object is unknown; write (STRUCT) in front of the source",
    /// rkprobe's own: by BTF, the sources point to different structures.
    DiffObjectType => "Sources have objects of different types; write (STRUCT) in front of them",
    /// rkprobe's own: no function that ftrace can trace takes a pointer to the structure.
    NoObjectFunction => "No function takes a pointer to this structure",
    /// rkprobe's own: the number after `objects=` is out of range.
    BadObjectCount => "Number of objects must be from 1 to 65536",
    /// rkprobe's own: a pattern is empty.
    BadPattern => "Pattern for functions is empty",
    /// rkprobe's own: a list of functions is too long.
    TooManyPatterns => "List has more than 64 patterns",
    /// rkprobe's own: the list of functions of an `f` has only `!PATTERN`.
    NoPattern => "List only leaves functions out",
    /// rkprobe's own: the number after `hits=` is out of range.
    BadHitCount => "Number of hits must be from 1 to 4294967295",
    /// rkprobe's own: `changes` of an object probe without arguments.
    NoChangingValue => "Nothing can change; write an argument after the option",
    /// rkprobe's own: `$unchanged` of an object probe that records all calls.
    UnchangedOnAll => "$unchanged needs the option changes",
    /// rkprobe's own: an option of an object probe is in the command twice.
    OptionTwice => "Option can be used only once",
    /// rkprobe's own: the command uses `$obj`, but the probe is not an object probe.
    ObjOnProbe => "$obj is only available on object probes",
    /// rkprobe's own: the number of `*N` in the functions of a call tree is out of range.
    BadCallDepth => "Depth must be from 1 to 16",
    /// rkprobe's own: no function that ftrace can trace matches an item of a call tree.
    NoCallFunction => "No function that can be traced matches",
    /// rkprobe's own: the number after `calls=` is out of range.
    BadCallCount => "Number of calls must be from 1 to 1024",
    /// rkprobe's own: the number after `steps=` is out of range.
    BadStepCount => "Number of steps must be from 1 to 1048576, for all calls together",
    /// rkprobe's own: an operand is missing in the condition.
    NoOperand => "Operand is missing in the condition",
    /// rkprobe's own: no operator follows an operand.
    NoOperator => "Comparison needs an operator: == != < <= > >= & ~",
    /// rkprobe's own: no value follows an operator.
    NoComparedValue => "Value is missing after the operator",
    /// rkprobe's own: text that is no operator follows a comparison.
    NoConnective => "Comparisons are joined by && or ||",
    /// rkprobe's own: the closing quote of a value is missing.
    OpenQuote => "Quoted value is not closed",
    /// rkprobe's own: the closing `)` is missing.
    OpenParenthesis => "Parenthesis is not closed",
    /// rkprobe's own: no `(` belongs to this `)`.
    ClosedParenthesis => "Parenthesis is not open",
    /// rkprobe's own: more than 32 comparisons, or open parentheses and operators.
    ConditionTooLong => "Condition has too many comparisons or parentheses",
    /// rkprobe's own: the value is not of the operand's type.
    BadComparedValue => "Value is not a number or an enumerator of the operand's type",
    /// rkprobe's own: the number exceeds the range of the operand's type.
    ValueRange => "Value does not fit into the type of the operand",
    /// rkprobe's own: no value of the operand's type fulfils the comparison.
    NeverTrue => "Comparison is never true for the type of the operand",
    /// rkprobe's own: the operand is an array.
    ArrayOperand => "An array cannot be compared",
    /// rkprobe's own: a string is ordered, or has bits.
    BadStringOperator => "Strings are compared by ==, != and ~",
    /// rkprobe's own: `~` follows a number.
    GlobOnNumber => "~ compares strings; give the operand the type string",
    /// rkprobe's own: the pattern of `~` would take long to match.
    SlowPattern => "Pattern has more than 255 bytes, or a [ without ]",
    /// rkprobe's own: a key is missing in the list after `by`.
    NoKey => "Key is missing in the list after by",
    /// rkprobe's own: the list after `by` has more than 4 keys.
    TooManyKeys => "Too many keys after by",
    /// rkprobe's own: a key or a field is in its list twice.
    SameKey => "Key or field can be only once in its list",
    /// rkprobe's own: the text after the `.` of a key is no modifier.
    BadModifier => "Modifier is not log2, buckets=, sym, sym-offset, hex, execname or syscall",
    /// rkprobe's own: the value of the key cannot have this modifier.
    ModifierType => "Modifier does not fit the type of the key",
    /// rkprobe's own: the number after `.buckets=` is malformed or zero.
    BadBuckets => "Size of the buckets must be a number above 0",
    /// rkprobe's own: the key or the field is an array.
    ArrayKey => "An array cannot be a key, and has no sum, min or max",
    /// rkprobe's own: a field is missing in the list after `sum`, `min` or `max`.
    NoField => "Field is missing in the list after sum, min or max",
    /// rkprobe's own: the list after `sum`, `min` or `max` has more than 4 fields.
    TooManyFields => "Too many fields after sum, min or max",
    /// rkprobe's own: the field of a sum, minimum or maximum is a string.
    ValueOfString => "Only numbers have a sum, min or max",
    /// rkprobe's own: another word follows the keys.
    BadBy => "Only sum, min, max FIELD,... and size=N can follow the keys, in this order",
    /// rkprobe's own: the other probes of the event count by other keys, or make records.
    DiffKeys => "Keys, fields and size must be those of the other probes of the event",
    /// rkprobe's own: an object probe with `changes` has `by`.
    ByOfChanges => "An object probe with changes cannot count",
    /// rkprobe's own: a call tree has `by`.
    ByOfTree => "A call tree cannot count",
    /// rkprobe's own: the number after `size=` is malformed or out of range.
    BadTableSize => "Size of the table must be a power of two from 128 to 131072",
    /// rkprobe's own: the command contains a NUL.
    NulCharacter => "Invalid character in the command",
}

/// An error number for user space, as a positive number.
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
