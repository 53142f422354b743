// SPDX-License-Identifier: GPL-2.0

//! The names of errors.

use linux_errno::Error;

/// The errors that no system call returns. C: `include/linux/errno.h`.
#[rustfmt::skip]
const OF_THE_KERNEL: [&str; 20] = [
    "ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "ENOIOCTLCMD", "ERESTART_RESTARTBLOCK",
    "EPROBE_DEFER", "EOPENSTALE", "ENOPARAM", "520", "EBADHANDLE", "ENOTSYNC", "EBADCOOKIE",
    "ENOTSUPP", "ETOOSMALL", "ESERVERFAULT", "EBADTYPE", "EJUKEBOX", "EIOCBQUEUED",
    "ERECALLCONFLICT", "ENOGRACE",
];

/// The name of an error, or its number. `number` is positive.
pub fn name(number: u64) -> String {
    let of_the_kernel = number.checked_sub(512).map(|index| index as usize);
    if let Some(name) = of_the_kernel.and_then(|index| OF_THE_KERNEL.get(index)) {
        return name.to_string();
    }
    let error = u16::try_from(number).ok().and_then(Error::new);
    // Without a name, the text is `Error(NUMBER)`.
    let name = error.map(|error| format!("{error:?}"));
    name.filter(|name| !name.ends_with(')'))
        .unwrap_or_else(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_errors() {
        assert_eq!(name(2), "ENOENT");
        assert_eq!(name(110), "ETIMEDOUT");
        assert_eq!(name(512), "ERESTARTSYS");
        assert_eq!(name(519), "ENOPARAM");
        assert_eq!(name(524), "ENOTSUPP");
        assert_eq!(name(531), "ENOGRACE");
        assert_eq!(name(133), "EHWPOISON");
        for unnamed in [0, 41, 520, 532, 4095, u64::MAX] {
            assert_eq!(name(unnamed), unnamed.to_string());
        }
    }
}
