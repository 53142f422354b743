// SPDX-License-Identifier: GPL-2.0

//! A type in BTF: a header of three words, and the data of its kind.
//!
//! C: `struct btf_type` and the structures after it in `include/uapi/linux/btf.h`.

/// The size of a type's header, in bytes.
const HEAD: usize = 12;

/// The id of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(u32);

impl TypeId {
    /// The id of `void`. BTF contains no entry for `void`.
    pub const VOID: Self = Self(0);

    /// The type with this id. The type need not exist.
    pub const fn new(id: u32) -> Self {
        Self(id)
    }

    /// The id as a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The kind of a type.
///
/// C: `BTF_KIND_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// `void`.
    Void,
    /// A number, including `char` and `bool`.
    Int,
    /// A pointer.
    Ptr,
    /// An array.
    Array,
    /// A structure.
    Struct,
    /// A union.
    Union,
    /// An enumeration of up to 32 bits.
    Enum,
    /// A declaration of a structure or union, without a definition.
    Fwd,
    /// Another name for a type.
    Typedef,
    /// `volatile`.
    Volatile,
    /// `const`.
    Const,
    /// `restrict`.
    Restrict,
    /// A named function.
    Func,
    /// The prototype of a function.
    FuncProto,
    /// A variable.
    Var,
    /// The variables of a section.
    Datasec,
    /// A floating point number.
    Float,
    /// An attribute of a declaration.
    DeclTag,
    /// An attribute of a type.
    TypeTag,
    /// An enumeration of 64 bits.
    Enum64,
    /// An unknown kind of a later version.
    Other(u8),
}

impl TypeKind {
    const fn new(number: u8) -> Self {
        match number {
            0 => Self::Void,
            1 => Self::Int,
            2 => Self::Ptr,
            3 => Self::Array,
            4 => Self::Struct,
            5 => Self::Union,
            6 => Self::Enum,
            7 => Self::Fwd,
            8 => Self::Typedef,
            9 => Self::Volatile,
            10 => Self::Const,
            11 => Self::Restrict,
            12 => Self::Func,
            13 => Self::FuncProto,
            14 => Self::Var,
            15 => Self::Datasec,
            16 => Self::Float,
            17 => Self::DeclTag,
            18 => Self::TypeTag,
            19 => Self::Enum64,
            other => Self::Other(other),
        }
    }

    /// The number of bytes after the header, and of additional bytes for each element.
    fn sizes(self, layout: &[u8]) -> Option<(u8, u8)> {
        Some(match self {
            Self::Ptr
            | Self::Fwd
            | Self::Typedef
            | Self::Volatile
            | Self::Const
            | Self::Restrict
            | Self::Func
            | Self::Float
            | Self::TypeTag => (0, 0),
            Self::Int | Self::Var | Self::DeclTag => (4, 0),
            Self::Array => (12, 0),
            Self::Enum | Self::FuncProto => (0, 8),
            Self::Struct | Self::Union | Self::Datasec | Self::Enum64 => (0, 12),
            // BTF contains no entry for `void`.
            Self::Void => return None,
            Self::Other(number) => {
                // An entry has two bytes of sizes and two bytes of flags.
                let at = usize::from(number).wrapping_mul(4);
                match layout.get(at..at.wrapping_add(4))? {
                    [info, element, ..] => (*info, *element),
                    _ => return None,
                }
            }
        })
    }

    /// Whether the type is a typedef or a qualifier of another type.
    ///
    /// C: `btf_type_is_modifier()`.
    pub const fn is_modifier(self) -> bool {
        matches!(
            self,
            Self::Typedef | Self::Volatile | Self::Const | Self::Restrict | Self::TypeTag
        )
    }

    /// Whether the type has members.
    ///
    /// C: `btf_type_is_struct()`.
    pub const fn has_members(self) -> bool {
        matches!(self, Self::Struct | Self::Union)
    }
}

/// A type.
#[derive(Clone, Copy, Debug)]
pub struct Type<'a> {
    /// The offset of the type's name, in bytes.
    pub(super) name: u32,
    info: u32,
    value: u32,
    /// The data after the header of the type.
    tail: &'a [u8],
}

impl<'a> Type<'a> {
    /// The type of [`TypeId::VOID`].
    pub(super) const VOID: Self = Self {
        name: 0,
        info: 0,
        value: 0,
        tail: &[],
    };

    /// Reads the type at the start of `bytes`. Returns `None` if `bytes` do not contain all of it.
    pub(super) fn read(bytes: &'a [u8], layout: &[u8]) -> Option<Self> {
        let ty = Self {
            name: word(bytes, 0)?,
            info: word(bytes, 4)?,
            value: word(bytes, 8)?,
            tail: bytes.get(HEAD..)?,
        };
        let (info, element) = ty.kind().sizes(layout)?;
        let elements = usize::from(element).checked_mul(ty.count())?;
        let tail = ty.tail.get(..elements.checked_add(usize::from(info))?)?;
        Some(Self { tail, ..ty })
    }

    /// The size of the type's entry, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.tail.len().saturating_add(HEAD)
    }

    /// The kind of the type.
    pub const fn kind(&self) -> TypeKind {
        TypeKind::new((self.info >> 24) as u8 & 0x7f)
    }

    /// The flag of the type. The meaning depends on the kind. In a structure or union, members can
    /// be bitfields. In an enumeration, the values are signed. In a forward declaration, the type
    /// is a union.
    ///
    /// C: `btf_type_kflag()`.
    pub const fn flag(&self) -> bool {
        self.info >> 31 != 0
    }

    /// The number of members, parameters or values.
    ///
    /// C: `btf_type_vlen()`.
    pub const fn count(&self) -> usize {
        (self.info & 0xff_ffff) as usize
    }

    /// The size of a number, an enumeration, a structure or a union, in bytes. Has no meaning for
    /// other kinds.
    pub const fn size(&self) -> u32 {
        self.value
    }

    /// The type that a pointer, a modifier, a function or a variable refers to, or the return type
    /// of a prototype. Has no meaning for other kinds.
    pub const fn target(&self) -> TypeId {
        TypeId(self.value)
    }

    /// The details of a number.
    pub fn int(&self) -> Option<Int> {
        match self.kind() {
            TypeKind::Int => word(self.tail, 0).map(Int),
            _ => None,
        }
    }

    /// The details of an array.
    pub fn array(&self) -> Option<Array> {
        match self.kind() {
            TypeKind::Array => Some(Array {
                element: TypeId(word(self.tail, 0)?),
                index: TypeId(word(self.tail, 4)?),
                len: word(self.tail, 8)?,
            }),
            _ => None,
        }
    }

    /// The elements from index `first` on. Each element has N words.
    pub(super) fn elements<const N: usize>(
        &self,
        first: usize,
    ) -> impl Iterator<Item = [u32; N]> + use<'a, N> {
        let bytes = N.wrapping_mul(4);
        let rest = self.tail.get(first.saturating_mul(bytes)..).unwrap_or(&[]);
        rest.chunks_exact(bytes).map(|element| {
            let mut words = [0; N];
            for (value, bytes) in words.iter_mut().zip(element.chunks_exact(4)) {
                *value = word(bytes, 0).unwrap_or(0);
            }
            words
        })
    }
}

/// The details of a number besides its size.
///
/// C: `BTF_INT_ENCODING()`, `BTF_INT_OFFSET()`, `BTF_INT_BITS()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int(u32);

impl Int {
    /// The number of bits.
    pub const fn bits(self) -> u8 {
        self.0 as u8
    }

    /// The number of the first bit. Not 0 only in old BTF.
    pub const fn offset(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Whether the number is signed.
    pub const fn is_signed(self) -> bool {
        self.0 & (1 << 24) != 0
    }

    /// Whether the number is a character. Compilers do not set this flag for `char`.
    pub const fn is_char(self) -> bool {
        self.0 & (1 << 25) != 0
    }

    /// Whether the number is a boolean.
    pub const fn is_bool(self) -> bool {
        self.0 & (1 << 26) != 0
    }
}

/// The details of an array.
///
/// C: `struct btf_array`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// The type of an element.
    pub element: TypeId,
    /// The type of an index.
    pub index: TypeId,
    /// The number of elements.
    pub len: u32,
}

/// The word at byte `at`.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|word| u32::from_ne_bytes(*word))
}
