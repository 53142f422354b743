// SPDX-License-Identifier: GPL-2.0

//! Flags of well-known types, by name. The bits come from BTF, except those that have been the same in all kernels.

use probe::btf::{
    Btf,
    Type,
    TypeId,
    TypeKind, //
};

/// Names of bits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flags {
    /// The lower bits that are one number, and not flags.
    number_mask: u64,
    /// The names of this number.
    numbers: Vec<(String, u64)>,
    /// The names of the other bits. A name of several bits comes before their names.
    bits: Vec<(String, u64)>,
}

/// Names of several bits of `gfp_t`, each by the names of its bits, those with more bits first. C: `GFP_KERNEL` and so
/// on.
const GFP: [(&str, &[&str]); 7] = [
    (
        "GFP_HIGHUSER",
        &[
            "DIRECT_RECLAIM",
            "KSWAPD_RECLAIM",
            "IO",
            "FS",
            "HARDWALL",
            "HIGHMEM",
        ],
    ),
    (
        "GFP_USER",
        &["DIRECT_RECLAIM", "KSWAPD_RECLAIM", "IO", "FS", "HARDWALL"],
    ),
    (
        "GFP_KERNEL_ACCOUNT",
        &["DIRECT_RECLAIM", "KSWAPD_RECLAIM", "IO", "FS", "ACCOUNT"],
    ),
    (
        "GFP_KERNEL",
        &["DIRECT_RECLAIM", "KSWAPD_RECLAIM", "IO", "FS"],
    ),
    ("GFP_NOFS", &["DIRECT_RECLAIM", "KSWAPD_RECLAIM", "IO"]),
    ("GFP_NOIO", &["DIRECT_RECLAIM", "KSWAPD_RECLAIM"]),
    ("GFP_ATOMIC", &["HIGH", "KSWAPD_RECLAIM"]),
];

/// The bits of `fmode_t` that programs know, by `open(2)`.
const FMODE: [(&str, u64); 6] = [
    ("FMODE_READ", 1),
    ("FMODE_WRITE", 2),
    ("FMODE_LSEEK", 4),
    ("FMODE_PREAD", 8),
    ("FMODE_PWRITE", 16),
    ("FMODE_EXEC", 32),
];

/// The access modes of `open(2)`. C: `O_ACCMODE`.
const ACCESS: [(&str, u64); 4] = [
    ("O_RDONLY", 0),
    ("O_WRONLY", 1),
    ("O_RDWR", 2),
    ("O_ACCMODE", 3),
];

/// The types of files. C: `S_IFMT`.
const FILES: [(&str, u64); 7] = [
    ("S_IFIFO", 0o010000),
    ("S_IFCHR", 0o020000),
    ("S_IFDIR", 0o040000),
    ("S_IFBLK", 0o060000),
    ("S_IFREG", 0o100000),
    ("S_IFLNK", 0o120000),
    ("S_IFSOCK", 0o140000),
];

impl Flags {
    /// Bits with these names.
    pub fn of(bits: impl Iterator<Item = (String, u64)>) -> Self {
        Self {
            bits: bits.filter(|(_, bits)| *bits != 0).collect(),
            ..Self::default()
        }
    }

    /// The bits of `gfp_t`. `None` if BTF does not name them.
    pub fn gfp(btf: &Btf<'_>) -> Option<Self> {
        let ty = enumeration_with(btf, "___GFP_DMA_BIT")?;
        let name = |name: &str| {
            let name = name.strip_prefix("___GFP_")?.strip_suffix("_BIT")?;
            Some(name.to_string())
        };
        let single: Vec<(String, u64)> = bits_of(btf, ty, name);
        let several = GFP.iter().filter_map(|(name, parts)| {
            let bit = |part: &&str| Some(single.iter().find(|(name, _)| name == part)?.1);
            let bits = parts
                .iter()
                .map(bit)
                .try_fold(0, |all, bit| Some(all | bit?));
            Some((name.to_string(), bits?))
        });
        let single = single.iter();
        let single = single.map(|(name, bit)| (format!("__GFP_{name}"), *bit));
        Some(Self {
            bits: several.chain(single).collect(),
            ..Self::default()
        })
    }

    /// The bits of `fmode_t`.
    pub fn fmode() -> Self {
        let named = |(name, bit): (&str, u64)| (name.to_string(), bit);
        Self {
            bits: FMODE.into_iter().map(named).collect(),
            ..Self::default()
        }
    }

    /// The flags of `open(2)`.
    pub fn open() -> Self {
        Self::open_on(cfg!(target_arch = "aarch64"))
    }

    /// The same of an architecture. C: `include/uapi/asm-generic/fcntl.h`, `arch/arm64/include/uapi/asm/fcntl.h`.
    fn open_on(is_arm64: bool) -> Self {
        let [direct, large_file, directory, no_follow] = match is_arm64 {
            true => [16, 17, 14, 15],
            false => [14, 15, 16, 17],
        };
        let bits: [(&str, u64); 19] = [
            ("__FMODE_EXEC", 1 << 5),
            ("O_CREAT", 1 << 6),
            ("O_EXCL", 1 << 7),
            ("O_NOCTTY", 1 << 8),
            ("O_TRUNC", 1 << 9),
            ("O_APPEND", 1 << 10),
            ("O_NONBLOCK", 1 << 11),
            ("O_SYNC", (1 << 20) | (1 << 12)),
            ("O_DSYNC", 1 << 12),
            ("FASYNC", 1 << 13),
            ("O_DIRECT", 1 << direct),
            ("O_LARGEFILE", 1 << large_file),
            ("O_TMPFILE", (1 << 22) | (1 << directory)),
            ("O_DIRECTORY", 1 << directory),
            ("O_NOFOLLOW", 1 << no_follow),
            ("O_NOATIME", 1 << 18),
            ("O_CLOEXEC", 1 << 19),
            ("O_PATH", 1 << 21),
            ("O_EMPTYPATH", 1 << 26),
        ];
        let named = |(name, bit): (&str, u64)| (name.to_string(), bit);
        Self {
            number_mask: 3,
            numbers: ACCESS.into_iter().map(named).collect(),
            bits: bits.into_iter().map(named).collect(),
        }
    }

    /// The operation and the flags of a block request, `blk_opf_t`. `None` if BTF does not name them.
    pub fn block_operation(btf: &Btf<'_>) -> Option<Self> {
        let operation = btf.get(btf.find("req_op", TypeKind::Enum)?)?;
        let numbers = btf.enumerators(operation);
        let flags = btf.get(btf.find("req_flag_bits", TypeKind::Enum)?)?;
        let name = |name: &str| Some(name.strip_prefix("__")?.to_string());
        Some(Self {
            // C: `REQ_OP_MASK`.
            number_mask: 0xff,
            numbers: numbers
                .map(|(name, value)| (name.into(), value as u64))
                .collect(),
            bits: bits_of(btf, flags, name),
        })
    }

    /// The names, with `|` between them. Bits without a name are a number at the end.
    pub fn show(&self, value: u64) -> String {
        let number = value & self.number_mask;
        let mut rest = value & !self.number_mask;
        let mut names: Vec<&str> = Vec::new();
        match self.numbers.iter().find(|(_, value)| *value == number) {
            Some((name, _)) => names.push(name),
            None => rest |= number,
        }
        for (name, bits) in &self.bits {
            if rest & bits == *bits {
                rest &= !bits;
                names.push(name);
            }
        }
        let rest_text = format!("{rest:#x}");
        match (names.is_empty(), rest) {
            (true, 0) => return "0".into(),
            (_, 0) => {}
            _ => names.push(&rest_text),
        }
        names.join("|")
    }
}

/// The type and the permissions of a file, such as `S_IFREG|0644`.
pub fn mode(mode: u64) -> String {
    let (kind, permissions) = (mode & 0o170000, mode & !0o170000);
    match FILES.iter().find(|(_, file)| *file == kind) {
        Some((name, _)) => format!("{name}|{permissions:04o}"),
        None => format!("{mode:04o}"),
    }
}

/// The major and the minor number of a device, as `lsblk` and `mountinfo` show them. C: `MAJOR()`, `MINOR()`.
pub fn device(number: u64) -> String {
    const MINOR_BITS: u32 = 20;

    format!(
        "{}:{}",
        number >> MINOR_BITS,
        number & ((1 << MINOR_BITS) - 1)
    )
}

/// The bits whose numbers are the enumerators with a `name`.
fn bits_of<'a>(
    btf: &Btf<'a>,
    ty: Type<'a>,
    name: impl Fn(&str) -> Option<String>,
) -> Vec<(String, u64)> {
    let bit = |(text, number): (&'a str, i64)| {
        let bit = 1u64.checked_shl(u32::try_from(number).ok()?)?;
        Some((name(text)?, bit))
    };
    let mut bits: Vec<(String, u64)> = btf.enumerators(ty).filter_map(bit).collect();
    bits.retain(|(name, _)| !name.ends_with("NR_BITS") && !name.contains("LAST"));
    bits
}

/// The enumeration that has an enumerator. It need not have a name.
fn enumeration_with<'a>(btf: &Btf<'a>, enumerator: &str) -> Option<Type<'a>> {
    (1..btf.type_count())
        .filter_map(|id| btf.get(TypeId::new(id)))
        .filter(|ty| ty.kind() == TypeKind::Enum)
        .find(|ty| btf.enumerators(*ty).any(|(name, _)| name == enumerator))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf;

    #[test]
    fn names_flags_that_btf_knows() {
        let mut types = btf::builder::Builder::new();
        let mut enumeration = |name: &str, all: &[(&str, u32)]| {
            let mut tail = Vec::new();
            for (name, value) in all {
                tail.extend_from_slice(&[types.string(name), *value]);
            }
            types.add(name, 6 << 24 | all.len() as u32, 4, &tail);
        };
        let bits = [
            "DMA",
            "IO",
            "FS",
            "DIRECT_RECLAIM",
            "KSWAPD_RECLAIM",
            "HIGH",
        ];
        let names: Vec<String> = bits
            .iter()
            .map(|name| format!("___GFP_{name}_BIT"))
            .chain(["___GFP_LAST_BIT".into()])
            .collect();
        let gfp: Vec<(&str, u32)> = names.iter().map(|name| &**name).zip(0..).collect();
        enumeration("", &gfp);
        enumeration("req_op", &[("REQ_OP_READ", 0), ("REQ_OP_WRITE", 1)]);
        enumeration(
            "req_flag_bits",
            &[("__REQ_SYNC", 11), ("__REQ_NR_BITS", 12)],
        );
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();

        let gfp = Flags::gfp(&btf).unwrap();
        assert_eq!(gfp.show(0b11110), "GFP_KERNEL");
        assert_eq!(gfp.show(0b11111), "GFP_KERNEL|__GFP_DMA");
        assert_eq!(gfp.show(0b11000), "GFP_NOIO");
        assert_eq!(gfp.show(0b110000), "GFP_ATOMIC");
        assert_eq!(gfp.show(0b1000010), "__GFP_IO|0x40");
        assert_eq!(gfp.show(0), "0");
        let block = Flags::block_operation(&btf).unwrap();
        assert_eq!(block.show(0x801), "REQ_OP_WRITE|REQ_SYNC");
        assert_eq!(block.show(0x1000), "REQ_OP_READ|0x1000");
        assert_eq!(block.show(0x7), "0x7");
        assert_eq!(Flags::fmode().show(0x41), "FMODE_READ|0x40");
    }

    #[test]
    fn names_flags_of_open() {
        for (value, generic, arm64) in [
            (0, "O_RDONLY", "O_RDONLY"),
            (0x8002, "O_RDWR|O_LARGEFILE", "O_RDWR|O_NOFOLLOW"),
            (
                0x24000,
                "O_RDONLY|O_DIRECT|O_NOFOLLOW",
                "O_RDONLY|O_LARGEFILE|O_DIRECTORY",
            ),
            (0x10001, "O_WRONLY|O_DIRECTORY", "O_WRONLY|O_DIRECT"),
            (0x10_1641, "O_WRONLY|O_CREAT|O_TRUNC|O_APPEND|O_SYNC", ""),
            (0x1003, "O_ACCMODE|O_DSYNC", ""),
            (0x41_0002, "O_RDWR|O_TMPFILE", "O_RDWR|O_DIRECT|0x400000"),
            (0x40_4002, "O_RDWR|O_DIRECT|0x400000", "O_RDWR|O_TMPFILE"),
            (
                (1 << 32) | 0x8_0020,
                "O_RDONLY|__FMODE_EXEC|O_CLOEXEC|0x100000000",
                "",
            ),
        ] {
            assert_eq!(Flags::open_on(false).show(value), generic);
            let arm64 = if arm64.is_empty() { generic } else { arm64 };
            assert_eq!(Flags::open_on(true).show(value), arm64);
        }
    }

    #[test]
    fn shows_modes_of_files_and_devices() {
        assert_eq!(mode(0o100644), "S_IFREG|0644");
        assert_eq!(mode(0o755), "0755");
        assert_eq!(mode(0), "0000");
        assert_eq!(mode(0o041777), "S_IFDIR|1777");
        assert_eq!(device((8 << 20) | 17), "8:17");
    }
}
