// SPDX-License-Identifier: GPL-2.0

//! Each error, its place and its number.

use probe::{
    command::{
        parse,
        Error,
        Line,
        Normalized,
        Position, //
    },
    error::{
        Errno,
        ErrorKind::{
            self,
            *, //
        },
    },
};

use super::{
    conditions,
    create, //
};

const EINVAL: Errno = Errno::EINVAL;
const E2BIG: Errno = Errno::E2BIG;
const ERANGE: Errno = Errno::ERANGE;
const EILSEQ: Errno = Errno::EILSEQ;
const EOPNOTSUPP: Errno = Errno::EOPNOTSUPP;

/// A command with a `^` where its error is, as in the kernel's `kprobe_syntax_errors.tc`.
pub(super) type Case = (&'static str, ErrorKind, Errno);

/// All cases of `kprobe_syntax_errors.tc` that need neither BTF nor another probe.
const SELFTEST: &[Case] = &[
    ("p^100 vfs_read", BadMaxactType, EINVAL),
    ("r^1a111 vfs_read", BadMaxact, EINVAL),
    ("r^100000 vfs_read", MaxactTooBig, EINVAL),
    ("p ^non_exist_func", BadProbeAddr, EINVAL),
    ("p ^hoge-fuga", BadProbeAddr, EINVAL),
    ("p ^hoge+1000-1000", BadProbeAddr, EINVAL),
    ("r ^vfs_read+10", BadRetprobe, EINVAL),
    ("p:^/bar vfs_read", NoGroupName, EINVAL),
    (
        "p:^12345678901234567890123456789012345678901234567890123456789012345/bar vfs_read",
        GroupTooLong,
        EINVAL,
    ),
    ("p:^foo.1/bar vfs_read", BadGroupName, EINVAL),
    ("p:^ vfs_read", NoEventName, EINVAL),
    (
        "p:foo/^12345678901234567890123456789012345678901234567890123456789012345 vfs_read",
        EventTooLong,
        EINVAL,
    ),
    ("p:foo/^bar.1 vfs_read", BadEventName, EINVAL),
    ("p vfs_read ^$retval", RetvalOnProbe, EINVAL),
    ("p vfs_read ^$stack10000", BadStackNum, EINVAL),
    ("p vfs_read ^$arg10000", BadArgNum, EINVAL),
    ("p vfs_read ^$none_var", BadVar, EINVAL),
    ("p vfs_read ^%none_reg", BadRegName, EINVAL),
    ("p vfs_read ^@12345678abcde", BadMemAddr, EINVAL),
    ("p vfs_read+4^%all", BadAddrSuffix, EINVAL),
    ("p ^%all", BadAddrSuffix, EINVAL),
    ("p show^%all%return", BadAddrSuffix, EINVAL),
    ("p show%all ^$retval", RetvalOnProbe, EINVAL),
    ("p vfs_read ^@+10", FileOnKprobe, EINVAL),
    ("p vfs_read arg1=\\^x", BadImm, EINVAL),
    ("p vfs_read arg1=\\\"abcd^", ImmstrNoClose, EINVAL),
    ("p vfs_read ^+0@0)", DerefNeedBrace, EINVAL),
    ("p vfs_read ^+0ab1(@0)", BadDerefOffs, EINVAL),
    ("p vfs_read +0(+0(@0^)", DerefOpenBrace, EINVAL),
    ("p vfs_read +0(^$comm)", CommCantDeref, EINVAL),
    ("p vfs_read ^&1", BadFetchArg, EINVAL),
    (
        "p vfs_read +0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(^+0(@0)))))))))))))))))",
        TooManyNested,
        E2BIG,
    ),
    ("p vfs_read +0(@11):u8[10^", ArrayNoClose, EINVAL),
    ("p vfs_read +0(@11):u8[10]^a", BadArraySuffix, EINVAL),
    ("p vfs_read +0(@11):u8[^10a]", BadArrayNum, EINVAL),
    ("p vfs_read +0(@11):u8[^256]", ArrayTooBig, EINVAL),
    ("p vfs_read @11:^unknown_type", BadType, EINVAL),
    ("p vfs_read $stack0:^string", BadString, EINVAL),
    ("p vfs_read @11:^b10@a/16", BadBitfield, EINVAL),
    (
        "p vfs_read ^arg123456789012345678901234567890=@11",
        ArgNameTooLong,
        EINVAL,
    ),
    ("p vfs_read ^=@11", NoArgName, EINVAL),
    ("p vfs_read ^var.1=@11", BadArgName, EINVAL),
    ("p vfs_read var1=@11 ^var1=@12", UsedArgName, EINVAL),
    (
        "p vfs_read ^+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(\
         +1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(\
         +1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(@1234\
         ))))))))))))))))))))))))))",
        ArgTooLong,
        E2BIG,
    ),
    ("p vfs_read arg1=^", NoArgBody, EINVAL),
    ("p ^vfs_read+3", BadInsnBndry, EILSEQ),
    ("p vfs_read^%hoge", BadAddrSuffix, EINVAL),
    ("p ^vfs_read+10%return", BadRetprobe, EINVAL),
    ("p vfs_read args=^$arg*", BadVar, EINVAL),
    ("p vfs_read +0(^$arg*)", BadVar, EINVAL),
    ("p vfs_read $arg* ^$arg*", DoubleArgs, EINVAL),
    ("p vfs_read+20 ^$arg*", NofentryArgs, EINVAL),
    ("p vfs_read ^$arg*", NosupBtfarg, EOPNOTSUPP),
];

/// More, with the edges of the numbers and the errors that C does not log.
const MORE: &[Case] = &[
    // The first word.
    ("^x:ev vfs_read", NoMatchingType, EINVAL),
    ("^!p:ev vfs_read", NoMatchingType, EINVAL),
    ("^f:ev vfs_read", NoMatchingType, EINVAL),
    ("^t:ev kfree", NoMatchingType, EINVAL),
    ("^é vfs_read", NoMatchingType, EINVAL),
    ("p ^", NoTarget, EINVAL),
    ("r100:a/b ^", NoTarget, EINVAL),
    ("r^0 vfs_read", BadMaxact, EINVAL),
    ("r^4097 vfs_read", MaxactTooBig, EINVAL),
    ("r^4294967295 vfs_read", MaxactTooBig, EINVAL),
    ("r^4294967296 vfs_read", BadMaxact, EINVAL),
    ("r^08:ev vfs_read", BadMaxact, EINVAL),
    (
        "r^0000000000000000000000000000000000000000000000000000000000000001 vfs_read",
        BadMaxact,
        EINVAL,
    ),
    ("p^1:/ non_exist $none", BadMaxactType, EINVAL),
    ("p:ev\0 vfs_read", NulCharacter, EINVAL),
    // The target.
    ("p ^/bin/sh:0x1000", UserTarget, EINVAL),
    ("p ^a/b:c%hoge", UserTarget, EINVAL),
    // No file without a colon.
    ("p ^a/b-1", BadProbeAddr, EINVAL),
    ("p ^dup", NonUniqSymbol, EINVAL),
    ("p ^%return", BadProbeAddr, EINVAL),
    ("p ^+", BadProbeAddr, EINVAL),
    ("p ^-0", BadProbeAddr, EINVAL),
    ("p ^vfs_read+", BadProbeAddr, EINVAL),
    ("p ^vfs_read-1", BadProbeAddr, EINVAL),
    ("p ^vfs_read+0x100000000", BadProbeAddr, EINVAL),
    ("p ^vfs_read+0x1g", BadProbeAddr, EINVAL),
    ("p vfs_read^%", BadAddrSuffix, EINVAL),
    ("p vfs_read^%return%return", BadAddrSuffix, EINVAL),
    ("p vfs_read^%return+0", BadAddrSuffix, EINVAL),
    // The target comes before the name, and the name before the arguments.
    ("p:/bar ^non_exist $none", BadProbeAddr, EINVAL),
    ("p:^/bar vfs_read $none", NoGroupName, EINVAL),
    // The name.
    ("p:^. vfs_read", NoGroupName, EINVAL),
    ("p:^1a vfs_read", BadEventName, EINVAL),
    ("p:^a-b vfs_read", BadEventName, EINVAL),
    ("p:a/^b/c vfs_read", BadEventName, EINVAL),
    ("p:a.^b.c vfs_read", BadEventName, EINVAL),
    ("r12:^é vfs_read", BadEventName, EINVAL),
    // What concerns all arguments comes before any of them.
    ("p vfs_read %none ^$arg*", NosupBtfarg, EOPNOTSUPP),
    ("p vfs_read ^$arg0", BadArgNum, EINVAL),
    ("p vfs_read ^$arg00:u8", BadArgNum, EINVAL),
    ("p vfs_read %none ^$argx", BadVar, EINVAL),
    ("p vfs_read %none ^$arg+1", BadVar, EINVAL),
    ("p vfs_read ^$arg1x", BadVar, EINVAL),
    (
        "p vfs_read %none $arg1 ^$arg* $arg0",
        NosupBtfarg,
        EOPNOTSUPP,
    ),
    ("p vfs_read+20 %none ^$arg1", NofentryArgs, EINVAL),
    ("p 0xffff800000000000 ^$argx", NofentryArgs, EINVAL),
    ("p vfs_read+20 a=^$arg1", NofentryArgs, EINVAL),
    ("r vfs_read ^$arg*", NosupBtfarg, EOPNOTSUPP),
    ("r vfs_read ^$arg0", BadArgNum, EINVAL),
    ("r vfs_read a=^$arg0", BadArgNum, EINVAL),
    ("r vfs_read ^$arg2049", BadArgNum, EINVAL),
    ("r vfs_read +8(^$argx)", BadVar, EINVAL),
    ("r vfs_read $arg1:^string", BadString, EINVAL),
    ("p vfs_read%retinsn ^$elapsed", EntryOnRetinsn, EINVAL),
    ("p vfs_read%retinsn $retval ^$arg1", EntryOnRetinsn, EINVAL),
    ("p vfs_read%retinsn ^$arg*", EntryOnRetinsn, EINVAL),
    ("p vfs_read%retinsn a=+8(^$arg2):u8", EntryOnRetinsn, EINVAL),
    ("p vfs_read%retinsn ^$exit1", BadVar, EINVAL),
    ("p vfs_read%retinsn $exit:^string", BadString, EINVAL),
    ("r vfs_read $retval:^errno[2]", BadString, EINVAL),
    ("r vfs_read $retval:^errnos", BadType, EINVAL),
    (
        "r vfs_read \\1:errno \\1:errno \\1:errno \\1:errno \\1:errno \\1:errno \\1:errno \\1:errno \
         n=\\1:s32 ^ninth=\\1:errno",
        TooManyErrnos,
        E2BIG,
    ),
    ("p vfs_read ^$caller1", BadVar, EINVAL),
    ("p vfs_read $caller:^string", BadString, EINVAL),
    ("p vfs_read $caller:^u8[2]", BadString, EINVAL),
    ("p vfs_read+4 a=^$caller", CallerInside, EINVAL),
    ("p vfs_read%blocks +0(^$caller)", CallerInside, EINVAL),
    ("p 0xffffffff81000000 ^$caller", CallerInside, EINVAL),
    ("p vfs_read+4 if ^$caller == 1", CallerInside, EINVAL),
    ("p vfs_read ^$exit", ExitOnProbe, EINVAL),
    ("r vfs_read +0(^$exit)", ExitOnProbe, EINVAL),
    ("p vfs_read+4 a=^$exit", ExitOnProbe, EINVAL),
    ("p vfs_read^%retinsns", BadAddrSuffix, EINVAL),
    ("p ^vfs_read+4%retinsn", BadRetprobe, EINVAL),
    ("r^1 vfs_read%retinsn", MaxactOnRetinsn, EINVAL),
    ("r^4096:x vfs_read%retinsn", MaxactOnRetinsn, EINVAL),
    ("p^1:x vfs_read%retinsn", BadMaxactType, EINVAL),
    ("p ^%retinsn", BadProbeAddr, EINVAL),
    ("p ^%blocks", BadProbeAddr, EINVAL),
    ("p vfs_read^%blocksx", BadAddrSuffix, EINVAL),
    ("p vfs_read^%blocks-", BadAddrSuffix, EINVAL),
    ("r vfs_read^%blocks-once", BadAddrSuffix, EINVAL),
    ("p^1:x vfs_read%blocks-once", BadMaxactType, EINVAL),
    ("p vfs_read%blocks-once a=^$retval", RetvalOnProbe, EINVAL),
    ("p vfs_read^%blocks%all", BadAddrSuffix, EINVAL),
    ("p vfs_read^%all%blocks", BadAddrSuffix, EINVAL),
    ("r vfs_read^%blocks", BadAddrSuffix, EINVAL),
    ("r8:x vfs_read^%blocks", BadAddrSuffix, EINVAL),
    ("p^1:x vfs_read%blocks", BadMaxactType, EINVAL),
    ("p vfs_read%blocks ^$arg1", NofentryArgs, EINVAL),
    ("p vfs_read%blocks ^$arg*", NofentryArgs, EINVAL),
    ("p vfs_read%blocks a=^$retval", RetvalOnProbe, EINVAL),
    ("p vfs_read%blocks a=^$exit", ExitOnProbe, EINVAL),
    ("p vfs_read%blocks a=^$elapsed", ElapsedOnProbe, EINVAL),
    ("p ^%path", BadProbeAddr, EINVAL),
    ("p vfs_read^%paths", BadAddrSuffix, EINVAL),
    ("p vfs_read^%path%all", BadAddrSuffix, EINVAL),
    ("p ^vfs_read+4%path", BlocksInside, EINVAL),
    ("r vfs_read^%path", BadAddrSuffix, EINVAL),
    ("p^0:x vfs_read%path", BadMaxact, EINVAL),
    ("p^5000:x vfs_read%path", MaxactTooBig, EINVAL),
    ("p^8:x vfs_read", BadMaxactType, EINVAL),
    ("p vfs_read%path a=^$addr", BadVar, EINVAL),
    ("p vfs_read%path a=^$path", BadVar, EINVAL),
    ("p vfs_read%path if path > ^+0x0", BadStringOperator, EINVAL),
    ("p vfs_read ^$elapsed", ElapsedOnProbe, EINVAL),
    ("p vfs_read+4 ns=^$elapsed:u64", ElapsedOnProbe, EINVAL),
    ("r vfs_read +0(^$elapsed)", ElapsedCantDeref, EINVAL),
    (
        "r vfs_read +4(+0(^$elapsed)):string",
        ElapsedCantDeref,
        EINVAL,
    ),
    ("r vfs_read $elapsed:^string", BadString, EINVAL),
    ("r vfs_read $elapsed:^symstr", BadSymstring, EINVAL),
    ("r vfs_read $elapsed:^u64[2]", BadString, EINVAL),
    ("r vfs_read ^$elapsed1", BadVar, EINVAL),
    ("r vfs_read ^$elapse", BadVar, EINVAL),
    ("p vfs_read $stack:^symstr", BadSymstring, EINVAL),
    ("p vfs_read \\1:^symstr", BadSymstring, EINVAL),
    ("p vfs_read +u0(%di):^symstr", BadSymstring, EINVAL),
    ("p vfs_read +u0(%di):^symstr[2]", BadSymstring, EINVAL),
    ("r vfs_read $arg1:^symstr", BadSymstring, EINVAL),
    ("p vfs_read $comm:^symstr", NeedStringType, EINVAL),
    ("p vfs_read +0(%di):^symstr[2]", BadString, EINVAL),
    ("p vfs_read %di:^symstr[1]", BadString, EINVAL),
    ("p vfs_read %di:^symstrs", BadType, EINVAL),
    ("r vfs_read $arg1:^u8[2]", BadString, EINVAL),
    // Names of arguments.
    ("p vfs_read arg2=%ax ^%bx", UsedArgName, EINVAL),
    ("p vfs_read %ax ^arg1=%bx", UsedArgName, EINVAL),
    ("p vfs_read ^common_pid=%ax", UsedArgName, EINVAL),
    ("p vfs_read ^__probe_func=%ax", UsedArgName, EINVAL),
    ("p vfs_read ^common_type", UsedArgName, EINVAL),
    ("p vfs_read ^1a=%ax", BadArgName, EINVAL),
    ("p vfs_read ^\\\"a=b\"", BadArgName, EINVAL),
    // BTF.
    ("p vfs_read ^count", NosupBtfarg, EOPNOTSUPP),
    ("p vfs_read +8(^file->f_mode)", NosupBtfarg, EOPNOTSUPP),
    ("r vfs_read ^_x:u8", NosupBtfarg, EOPNOTSUPP),
    ("p vfs_read+4 ^count", NosupBtfarg, EINVAL),
    ("p vfs_read count:^none", BadType, EINVAL),
    ("r vfs_read ^$retval->a", NosupBtfarg, EOPNOTSUPP),
    ("r vfs_read ^$retval.a", NosupBtfarg, EOPNOTSUPP),
    ("r vfs_read ^$retvals", NosupBtfarg, EOPNOTSUPP),
    ("p vfs_read ^(file)%ax", NosupBtfarg, EOPNOTSUPP),
    // Variables.
    ("p vfs_read ^$retvals", RetvalOnProbe, EINVAL),
    ("p vfs_read+4 ^$retval", RetvalOnProbe, EINVAL),
    ("p vfs_read ^$", BadVar, EINVAL),
    ("p vfs_read ^$stack2049", BadStackNum, EINVAL),
    ("p vfs_read ^$stack0x1", BadVar, EINVAL),
    ("p vfs_read ^$stack+1", BadVar, EINVAL),
    ("p vfs_read ^$stacks", BadVar, EINVAL),
    ("p vfs_read ^$stack99999999999999999999", BadVar, ERANGE),
    ("p vfs_read ^$stack18446744073709551616", BadVar, ERANGE),
    (
        "p vfs_read ^$stack18446744073709551615",
        BadStackNum,
        EINVAL,
    ),
    // A number that does not fit is found before what follows it.
    ("p vfs_read ^$stack99999999999999999999x", BadVar, ERANGE),
    ("p vfs_read ^$arg18446744073709551616", BadVar, ERANGE),
    ("r vfs_read a=^$arg18446744073709551616", BadVar, ERANGE),
    ("p vfs_read ^$arg18446744073709551615", BadArgNum, EINVAL),
    ("p vfs_read ^$comms", BadVar, EINVAL),
    ("p vfs_read ^$arg2049", BadArgNum, EINVAL),
    ("p vfs_read a=^$arg0", BadArgNum, EINVAL),
    ("p vfs_read a=^$arg1x", BadVar, EINVAL),
    // Values.
    ("p vfs_read ^%", BadRegName, EINVAL),
    ("p vfs_read ^%AX", BadRegName, EINVAL),
    ("p vfs_read ^@0x10000000000000000", BadMemAddr, ERANGE),
    ("p vfs_read \\^", BadImm, EINVAL),
    ("p vfs_read \\^-9223372036854775809", BadImm, ERANGE),
    ("p vfs_read \\^+9223372036854775808", BadImm, ERANGE),
    ("p vfs_read \\^18446744073709551616", BadImm, ERANGE),
    ("p vfs_read \\\"^", ImmstrNoClose, EINVAL),
    ("p vfs_read \\\"a^:string", ImmstrNoClose, EINVAL),
    ("p vfs_read ^:u8", BadFetchArg, EINVAL),
    ("p vfs_read a=^é", BadFetchArg, EINVAL),
    // Dereferences.
    ("p vfs_read ^+", DerefNeedBrace, EINVAL),
    ("p vfs_read +0(-u^", DerefOpenBrace, EINVAL),
    ("p vfs_read +0(^-u)", DerefNeedBrace, EINVAL),
    ("p vfs_read ^+(%ax)", BadDerefOffs, EINVAL),
    ("p vfs_read ^-+1(%ax)", BadDerefOffs, EINVAL),
    (
        "p vfs_read ^+9223372036854775808(%ax)",
        BadDerefOffs,
        ERANGE,
    ),
    (
        "p vfs_read ^-u9223372036854775809(%ax)",
        BadDerefOffs,
        ERANGE,
    ),
    ("p vfs_read +0(+u-4(^))", BadFetchArg, EINVAL),
    ("p vfs_read a=+u8(^%none)", BadRegName, EINVAL),
    ("p vfs_read a=-u8(+0(^%none))", BadRegName, EINVAL),
    ("p vfs_read +0(+0(^$comm))", CommCantDeref, EINVAL),
    ("p vfs_read +0(^\\\"a\")", CommCantDeref, EINVAL),
    ("p vfs_read +0(\\\"a^)", ImmstrNoClose, EINVAL),
    (
        "p vfs_read +0(^this_cpu_read(this_cpu_read(this_cpu_read(this_cpu_read(this_cpu_read(\
         this_cpu_read(this_cpu_read(this_cpu_read(%ax)))))))))",
        TooManyOps,
        EINVAL,
    ),
    // Types.
    ("p vfs_read %ax:^", BadType, EINVAL),
    ("p vfs_read @mod:^sym+8", BadType, EINVAL),
    ("p vfs_read +0(%di):^%px", BadType, EINVAL),
    ("p vfs_read %ax:^u7", BadType, EINVAL),
    ("p vfs_read %ax:^u08", BadType, EINVAL),
    ("p vfs_read %ax:^bool", BadType, EINVAL),
    ("p vfs_read %ax:^b1@0", BadType, EINVAL),
    ("p vfs_read %ax:^b1@0/12", BadType, EINVAL),
    ("p vfs_read %ax:^b0@0/8", BadBitfield, EINVAL),
    ("p vfs_read %ax:^b@0/8", BadBitfield, EINVAL),
    ("p vfs_read %ax:^b1@/8", BadBitfield, EINVAL),
    ("p vfs_read %ax:^b4@5/8", BadBitfield, EINVAL),
    ("p vfs_read +8(%di):^b4@5/8", BadBitfield, EINVAL),
    (
        "p vfs_read %ax:^b18446744073709551615@1/8",
        BadBitfield,
        EINVAL,
    ),
    (
        "p vfs_read %ax:^b1@18446744073709551615/8",
        BadBitfield,
        EINVAL,
    ),
    (
        "p vfs_read %ax:^b18446744073709551616@0/8",
        BadBitfield,
        EINVAL,
    ),
    ("p vfs_read +0(%di):u8[^0]", BadArrayNum, EINVAL),
    ("p vfs_read +0(%di):u8[^]", BadArrayNum, EINVAL),
    ("p vfs_read +0(%di):u8[^65]", ArrayTooBig, EINVAL),
    ("p vfs_read +0(%di):u8[^4294967296]", BadArrayNum, EINVAL),
    ("p vfs_read +0(%di):u8[1]^[2]", BadArraySuffix, EINVAL),
    ("p vfs_read %none:u8[^0]", BadArrayNum, EINVAL),
    ("p vfs_read %di:^u8[4]", BadString, EINVAL),
    ("p vfs_read +u0(%di):^u8[4]", BadString, EINVAL),
    ("p vfs_read $comm:^ustring", NeedStringType, EINVAL),
    ("p vfs_read $COMM:^string[2]", NeedStringType, EINVAL),
    ("p vfs_read \\\"a:^b\"", NeedStringType, EINVAL),
    ("p vfs_read $arg1:^ustring", BadString, EINVAL),
    ("p vfs_read $stack:^string[2]", BadString, EINVAL),
];

/// All cases without BTF.
fn all() -> impl Iterator<Item = &'static Case> {
    SELFTEST.iter().chain(MORE).chain(conditions::ERRORS)
}

/// The line without the `^`, and the column of the `^`.
pub(super) fn unmark(marked: &str) -> (String, usize) {
    let (before, after) = marked.split_once('^').unwrap_or((marked, ""));
    (format!("{before}{after}"), before.len())
}

#[test]
fn each_error_is_found_at_its_place() {
    for &(marked, kind, errno) in all() {
        let (line, column) = unmark(marked);
        let error = create(&line).expect_err(&line);
        assert_eq!((error.kind, error.errno), (kind, errno), "{line}");
        if kind != NulCharacter {
            assert_eq!(error.at.column(&line), column, "{line}");
        }
    }
}

#[test]
fn each_kind_is_tested() {
    // What only the executor of a command finds.
    let executor = [
        EventExist,
        FailRegProbe,
        DiffProbeType,
        DiffArgType,
        DiffKeys,
        SameProbe,
        TooManyEargs,
        NoSuchEvent,
        EventBusy,
        TailCall,
        NoRetInsn,
        BadText,
        RetInsnRefused,
        BlocksInside,
        UnknownBlocks,
        TooManyBlocks,
        NosupRetinsn,
        NosupWatch,
        EntryMemory,
        NoDataMemory,
    ];
    // In tests of their own.
    let elsewhere = [
        FileNamesTooLong,
        TooManyArgs,
        EventTooBig,
        BadDelete,
        NoDeleteName,
        BadTpName,
        NoEventInfo,
        BadAttachEvent,
        NoEventField,
        NosupPercpu,
        BadAccessFmt,
        BadAccessType,
        BadAccessLen,
        BadAccessAddr,
        ReadAccess,
        UnalignedAccess,
        // Of object probes.
        BadEventField,
        NoObjectEvent,
        ObjectOfObject,
        NoObjectField,
        BadObjectField,
        NoObjectType,
        DiffObjectType,
        NoObjectFunction,
        BadObjectCount,
        BadHitCount,
        NoChangingValue,
        UnchangedOnAll,
        BadPattern,
        NoPattern,
        TooManyPatterns,
        OptionTwice,
        ObjOnProbe,
        // Of call trees.
        BadCallDepth,
        NoCallFunction,
        BadCallCount,
        BadStepCount,
        ByOfTree,
        // Of keys.
        ByOfChanges,
        NoKey,
        TooManyKeys,
        SameKey,
        BadModifier,
        ModifierType,
        BadBuckets,
        ArrayKey,
        NoField,
        TooManyFields,
        ValueOfString,
        BadBy,
        BadTableSize,
    ];
    // What only BTF tells.
    let btf = [
        NoBtfarg,
        TypecastBadArrow,
        TypecastNotAligned,
        TypecastReqField,
        TypecastSymOffset,
        Args2Long,
        NoRetval,
        NoBtfEntry,
        NoPtrStrct,
        NosupDatArg,
        BadHyphen,
        NoBtfField,
        BadBtfTid,
        BadType4str,
    ];
    for kind in ErrorKind::ALL {
        let is_tested = all().any(|case| case.1 == *kind)
            || executor.contains(kind)
            || elsewhere.contains(kind)
            || btf.contains(kind);
        assert!(is_tested, "{kind:?}");
    }
}

#[test]
fn each_kind_has_a_text_of_its_own() {
    assert_eq!(BadMaxactType.text(), "Maxactive is only for function exit");
    assert_eq!(ImmstrNoClose.text(), "String is not closed with '\"'");
    assert_eq!(EventTooBig.text(), "Event too big (too many fields?)");
    for (index, kind) in ErrorKind::ALL.iter().enumerate() {
        let texts = ErrorKind::ALL.iter().map(|kind| kind.text());
        assert_eq!(
            texts.clone().position(|text| text == kind.text()),
            Some(index)
        );
    }
}

#[test]
fn an_entry_is_three_lines_with_the_normalized_command() {
    let line = "  p:a\t vfs_read   %ax  %none ";
    let error = create(line).unwrap_err();
    assert_eq!(
        error.entry(line).to_string(),
        "Invalid register name\n  Command: p:a vfs_read %ax %none\n                            ^\n"
    );
    assert_eq!(Normalized(line).to_string(), "p:a vfs_read %ax %none");
    assert_eq!(Normalized(" \t").to_string(), "");
}

#[test]
fn a_place_behind_the_last_word_is_one_after_a_space() {
    let at = |word, offset| Position { word, offset }.column("p  vfs_read %ax");
    assert_eq!(at(2, 1), 12);
    assert_eq!(at(3, 0), 15);
    assert_eq!(at(9, 5), 15);
}

#[test]
fn what_the_executor_finds_has_its_place() {
    let line = "p:a vfs_read x=%ax y=%bx";
    let column = |error: Error| error.at.column(line);
    let Ok(Line::Create(command)) = parse(line) else {
        panic!();
    };
    let written: Vec<_> = command.arguments().collect();
    let at_argument = |index| command.argument_error(&written, index, DiffArgType, Errno::EEXIST);
    assert_eq!(column(Error::at_command(SameProbe, Errno::EEXIST)), 0);
    assert_eq!(column(Error::at_target(FailRegProbe, Errno(1))), 4);
    assert_eq!(column(at_argument(1)), 19);
    assert_eq!(column(at_argument(2)), 25);
}

#[test]
fn a_nul_is_told_where_it_is() {
    let error = parse("p vfs_read a=\0%ax").unwrap_err();
    assert_eq!(
        (error.kind, error.at.column("p vfs_read a=\0%ax")),
        (NulCharacter, 13)
    );
}

#[test]
fn nothing_follows_an_error() {
    let Ok(Line::Create(command)) = parse("p vfs_read %none %ax") else {
        panic!();
    };
    let register = probe::arch::x86_64::register;
    let context = probe::command::ParseContext {
        point: probe::command::ProbePoint::Entry,
        types: probe::command::TypeInfo::Unsupported,
        modules: &[],
    };
    let written: Vec<_> = command.arguments().collect();
    let mut arguments = command.resolve(&written, context, register).unwrap();
    assert!(arguments.next().unwrap().is_err());
    assert!(arguments.next().is_none());
}
