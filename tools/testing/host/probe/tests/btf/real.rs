// SPDX-License-Identifier: GPL-2.0

//! The BTF of a kernel and of its modules, compared with what bpftool says of it.
//!
//! These need what the toolroot has: a kernel, and bpftool. Elsewhere they test nothing.

use std::{
    collections::HashMap,
    env,
    fs,
    path::{
        Path,
        PathBuf, //
    },
    process::{
        Command,
        Stdio, //
    }, //
};

use object::{
    Object,
    ObjectSection, //
};
use probe::btf::{
    Btf,
    Type,
    TypeId,
    TypeKind, //
};

use crate::index;

/// The kernel that scripts/setup made.
fn kernel() -> Option<PathBuf> {
    env::var_os("RKPROBE_TOOLROOT")?;
    let name = format!("linux-{}", env::var("KERNEL").ok()?);
    let kernel = Path::new(&env::var_os("RKPROBE_CACHE")?).join(name);
    kernel.join("vmlinuz").exists().then_some(kernel)
}

/// What a command prints.
fn output(command: &mut Command) -> Vec<u8> {
    let output = command.stderr(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}");
    output.stdout
}

/// The BTF of a kernel, which is left at `to`. An `Image` of arm64 has it without the tables of ELF.
fn kernel_btf(kernel: &Path, to: &Path) -> Vec<u8> {
    /// C: `struct btf_header`, as far as `hdr_len`.
    const HEADER: [u8; 8] = [0x9f, 0xeb, 1, 0, 24, 0, 0, 0];

    let vmlinuz = kernel.join("vmlinuz");
    let image = fs::read(&vmlinuz).unwrap();
    if image.get(56..60) != Some(b"ARM\x64") {
        let extract = kernel.join("source/scripts/extract-vmlinux");
        return section(&output(Command::new(extract).arg(vmlinuz)), to);
    }
    let start = image.windows(8).position(|bytes| bytes == HEADER).unwrap();
    let word = |at: usize| {
        let bytes = image[start + at..][..4].try_into().unwrap();
        u32::from_le_bytes(bytes) as usize
    };
    // The strings are last: after the header, `str_off` and `str_len` say where.
    let btf = &image[start..][..24 + word(16) + word(20)];
    fs::write(to, btf).unwrap();
    btf.to_vec()
}

/// The BTF of a file, which is left at `to`.
fn section(elf: &[u8], to: &Path) -> Vec<u8> {
    let file = object::File::parse(elf).unwrap();
    let btf = file.section_by_name(".BTF").unwrap().data().unwrap();
    fs::write(to, btf).unwrap();
    btf.to_vec()
}

/// What bpftool says of some BTF: a line for each type, and for what is in it one that is indented.
fn dump(base: Option<&Path>, file: &Path) -> String {
    let mut bpftool = Command::new("bpftool");
    if let Some(base) = base {
        bpftool.arg("-B").arg(base);
    }
    let text = output(
        bpftool
            .args(["btf", "dump", "file"])
            .arg(file)
            .args(["format", "raw"]),
    );
    String::from_utf8(text).unwrap()
}

fn name<'a>(btf: &Btf<'a>, ty: Type<'a>) -> &'a str {
    anonymous(btf.name(ty).unwrap())
}

fn anonymous(name: &str) -> &str {
    if name.is_empty() {
        "(anon)"
    } else {
        name
    }
}

/// The start of bpftool's line of a type: all that the reader knows of it.
fn line(btf: &Btf<'_>, id: u32) -> String {
    let ty = btf.get(TypeId::new(id)).unwrap();
    let (size, target, count) = (ty.size(), ty.target().get(), ty.count());
    let sign = if ty.flag() { "SIGNED" } else { "UNSIGNED" };
    let (kind, rest) = match ty.kind() {
        TypeKind::Int => {
            let int = ty.int().unwrap();
            let encoding = match (int.is_signed(), int.is_char(), int.is_bool()) {
                (true, false, false) => "SIGNED",
                (false, true, false) => "CHAR",
                (false, false, true) => "BOOL",
                (false, false, false) => "(none)",
                other => panic!("{other:?}"),
            };
            let (first, bits) = (int.offset(), int.bits());
            let rest =
                format!("size={size} bits_offset={first} nr_bits={bits} encoding={encoding}");
            ("INT", rest)
        }
        TypeKind::Array => {
            let array = ty.array().unwrap();
            let (element, index) = (array.element.get(), array.index.get());
            let rest = format!(
                "type_id={element} index_type_id={index} nr_elems={}",
                array.len
            );
            ("ARRAY", rest)
        }
        TypeKind::Struct => ("STRUCT", format!("size={size} vlen={count}")),
        TypeKind::Union => ("UNION", format!("size={size} vlen={count}")),
        TypeKind::Enum => ("ENUM", format!("encoding={sign} size={size} vlen={count}")),
        TypeKind::Enum64 => (
            "ENUM64",
            format!("encoding={sign} size={size} vlen={count}"),
        ),
        TypeKind::Fwd => {
            let kind = if ty.flag() { "union" } else { "struct" };
            ("FWD", format!("fwd_kind={kind}"))
        }
        TypeKind::FuncProto => ("FUNC_PROTO", format!("ret_type_id={target} vlen={count}")),
        TypeKind::Datasec => ("DATASEC", format!("size={size} vlen={count}")),
        TypeKind::Float => ("FLOAT", format!("size={size}")),
        TypeKind::Ptr => ("PTR", format!("type_id={target}")),
        TypeKind::Typedef => ("TYPEDEF", format!("type_id={target}")),
        TypeKind::Volatile => ("VOLATILE", format!("type_id={target}")),
        TypeKind::Const => ("CONST", format!("type_id={target}")),
        TypeKind::Restrict => ("RESTRICT", format!("type_id={target}")),
        TypeKind::TypeTag => ("TYPE_TAG", format!("type_id={target}")),
        // More follows here, which is of no use to a probe.
        TypeKind::Func => ("FUNC", format!("type_id={target} linkage=")),
        TypeKind::Var => ("VAR", format!("type_id={target}, linkage=")),
        TypeKind::DeclTag => ("DECL_TAG", format!("type_id={target} component_idx=")),
        TypeKind::Void | TypeKind::Other(_) => panic!("{:?}", ty.kind()),
    };
    format!("[{id}] {kind} '{}' {rest}", name(btf, ty))
}

/// bpftool's lines of the members of a structure, or of the parameters of a function's prototype.
fn inner_lines(btf: &Btf<'_>, id: u32, function: Option<&str>) -> Vec<String> {
    let ty = btf.get(TypeId::new(id)).unwrap();
    if let Some(function) = function {
        let function = btf.function(function).unwrap();
        let params = function.params().map(|param| {
            let (name, ty) = (anonymous(param.name), param.ty.get());
            format!("\t'{name}' type_id={ty}")
        });
        let more = function.is_variadic();
        let more = more.then(|| "\t'(anon)' type_id=0".to_owned());
        return params.chain(more).collect();
    }
    btf.members(ty)
        .map(|member| {
            let (name, ty) = (anonymous(member.name), member.ty.get());
            let start = format!("\t'{name}' type_id={ty} bits_offset={}", member.bit_offset);
            match member.bitfield {
                0 => start,
                bits => format!("{start} bitfield_size={bits}"),
            }
        })
        .collect()
}

/// How much was compared.
#[derive(Debug, Default)]
struct Count {
    types: u32,
    functions: u32,
    params: u32,
    members: u32,
    /// Members that were found by name, those in structures without a name included.
    found: u32,
    differing: u32,
}

impl Count {
    fn compare(&mut self, ours: &str, theirs: &str, is_whole: bool) {
        let is_equal = if is_whole {
            ours == theirs
        } else {
            theirs.starts_with(ours)
        };
        if !is_equal {
            self.differing += 1;
            eprintln!("ours: {ours}\nbpftool's: {theirs}");
        }
    }

    /// Compares `btf`, whose first type is `first`, with what bpftool says of it. Returns bpftool's
    /// lines of what is in each type; `base` has those of the base.
    fn all<'a>(
        &mut self,
        btf: &Btf<'_>,
        first: u32,
        dump: &'a str,
        base: &HashMap<u32, Vec<&str>>,
    ) -> HashMap<u32, Vec<&'a str>> {
        let mut id = first;
        let mut inner = HashMap::new();
        let mut lines = dump.lines().peekable();
        // The first function of each name, and its prototype.
        let mut functions = Vec::new();
        while let Some(theirs) = lines.next() {
            let ours = line(btf, id);
            let is_whole = !ours.ends_with('=');
            self.compare(&ours, theirs, is_whole);
            self.types += 1;
            let mut of_this = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with('\t')) {
                of_this.push(line);
            }
            let ty = btf.get(TypeId::new(id)).unwrap();
            if ty.kind().has_members() {
                self.compare_all(&inner_lines(btf, id, None), &of_this);
                self.members += of_this.len() as u32;
                self.members_by_name(btf, id);
            } else if ty.kind() == TypeKind::Func {
                functions.push((name(btf, ty), id, ty.target().get()));
            }
            inner.insert(id, of_this);
            id += 1;
        }
        assert_eq!(id, btf.type_count());

        let mut seen = HashMap::new();
        for (name, id, proto) in functions {
            let first_id = *seen.entry(name).or_insert(id);
            let found = btf.find(name, TypeKind::Func);
            if found != Some(TypeId::new(first_id)) {
                self.differing += 1;
                eprintln!("{name} is {first_id}, found {found:?}");
            }
            if first_id == id {
                let theirs = inner.get(&proto).or(base.get(&proto)).unwrap();
                self.compare_all(&inner_lines(btf, id, Some(name)), theirs);
                self.functions += 1;
                self.params += theirs.len() as u32;
            }
        }
        inner
    }

    fn compare_all(&mut self, ours: &[String], theirs: &[&str]) {
        if ours.len() != theirs.len() {
            self.differing += 1;
            eprintln!("ours: {ours:?}\nbpftool's: {theirs:?}");
        }
        for (ours, theirs) in ours.iter().zip(theirs) {
            self.compare(ours, theirs, true);
        }
    }

    /// Each member that has a name is found by it, at the sum of the offsets on the way to it.
    fn members_by_name(&mut self, btf: &Btf<'_>, id: u32) {
        let mut todo = vec![(TypeId::new(id), 0)];
        while let Some((inner, start)) = todo.pop() {
            for member in btf.members(btf.resolve(inner).unwrap()) {
                let at = start + member.bit_offset;
                if member.name.is_empty() {
                    if btf.resolve(member.ty).unwrap().kind().has_members() {
                        todo.push((member.ty, at));
                    }
                    continue;
                }
                let found = btf.find_member(TypeId::new(id), member.name);
                let expected = (at, member.ty, member.bitfield);
                let found = found.map(|found| (found.bit_offset, found.ty, found.bitfield));
                if found != Some(expected) {
                    self.differing += 1;
                    eprintln!("[{id}] {}: {found:?}, not {expected:?}", member.name);
                }
                self.found += 1;
            }
        }
    }
}

#[test]
fn a_kernel_and_its_modules_are_read_as_bpftool_reads_them() {
    let Some(kernel) = kernel() else {
        eprintln!("no kernel to compare");
        return;
    };
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    fs::create_dir_all(&directory).unwrap();

    let base_file = directory.join("vmlinux");
    let bytes = kernel_btf(&kernel, &base_file);
    let base = index(&bytes, None).unwrap();
    let mut count = Count::default();
    let base_dump = dump(None, &base_file);
    let inner = count.all(&base, 1, &base_dump, &HashMap::new());
    println!("vmlinux: {count:?}");
    assert_eq!(count.differing, 0);
    assert!(count.functions > 10_000 && count.found > 10_000);

    let modules = kernel.join("lib/modules").join(env::var("KERNEL").unwrap());
    // The last one may have functions only, with all their types in the base.
    for (module, has_members) in [
        ("fs/xfs/xfs", true),
        ("fs/ext4/ext4", true),
        ("drivers/net/dummy", false),
    ] {
        let path = modules.join(format!("kernel/{module}.ko.xz"));
        let elf = output(Command::new("xz").arg("-dc").arg(path));
        let file = directory.join("module");
        let bytes = section(&elf, &file);
        let btf = index(&bytes, Some(&base)).unwrap();
        let mut count = Count::default();
        let dump = dump(Some(&base_file), &file);
        count.all(&btf, base.type_count(), &dump, &inner);
        println!("{module}: {count:?}");
        assert_eq!(count.differing, 0);
        assert!(count.functions > 0 && (count.found > 0 || !has_members));
    }
    fs::remove_dir_all(directory).unwrap();
}
