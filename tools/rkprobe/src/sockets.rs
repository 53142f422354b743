// SPDX-License-Identifier: GPL-2.0

//! The other end of a socket: the fetch arguments that record it, and its text.

use std::net::{
    Ipv4Addr,
    Ipv6Addr, //
};

use crate::{
    btf,
    record::Record, //
};

/// C: `AF_INET6`.
const INET6: u64 = 10;

/// The states of TCP, from 1. C: `TCP_ESTABLISHED` and so on.
const STATES: [&str; 13] = [
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
    "BOUND_INACTIVE",
];

/// The name of a state of TCP.
pub fn state(number: u64) -> String {
    let name = usize::try_from(number).ok().and_then(|number| {
        let index = number.checked_sub(1)?;
        STATES.get(index)
    });
    name.map_or(format!("state {number}"), |name| name.to_string())
}

/// The offset of the address of IPv6 in `struct sock`. `None` if the kernel has no IPv6, or no BTF.
pub fn ipv6_offset() -> Option<u32> {
    btf::with(None, |btf| {
        btf::offset(btf, "sock", "__sk_common.skc_v6_daddr")
    })
    .flatten()
}

/// The fetch arguments that record the other end of the socket `sock`, and its own port.
pub fn fetch_arguments(sock: &str, ipv6: Option<u32>) -> String {
    let common = format!("{sock}->__sk_common");
    let mut text = format!(
        " sk={sock}:x64 family={common}.skc_family:u16 address={common}.skc_daddr:x32 port={common}.skc_dport:x16 \
         own_port={common}.skc_num:u16"
    );
    if let Some(offset) = ipv6 {
        let low = offset + 8;
        text += &format!(" high=+{offset}({sock}):x64 low=+{low}({sock}):x64");
    }
    text
}

/// The address of the other end. It is in the order of the network.
pub fn address(record: &Record<'_>) -> String {
    let four = |number: u64| Ipv4Addr::from((number as u32).to_ne_bytes());
    if record.number("family") != INET6 {
        return four(record.number("address")).to_string();
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&record.number("high").to_ne_bytes());
    bytes[8..].copy_from_slice(&record.number("low").to_ne_bytes());
    let six = Ipv6Addr::from(bytes);
    // A socket for IPv6 can have a connection by IPv4.
    match six.to_ipv4_mapped() {
        Some(four) => four.to_string(),
        None => format!("[{six}]"),
    }
}

/// The address and the port of the other end.
pub fn peer(record: &Record<'_>) -> String {
    let port = u16::from_be(record.number("port") as u16);
    format!("{}:{port}", address(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer_of(fields: &str) -> String {
        let line = format!("a-1 [000] ..... 1.0: syn: (f+0x4/0x10) sk=0xff {fields}");
        peer(&Record::parse(&line, "syn").unwrap())
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_are_in_the_order_of_the_network() {
        assert_eq!(
            peer_of("family=2 address=0x100007f port=0x5000"),
            "127.0.0.1:80"
        );
        assert_eq!(
            peer_of("family=10 address=0x0 port=0x5000 high=0x0 low=0x100000000000000"),
            "[::1]:80"
        );
        assert_eq!(
            peer_of("family=10 port=0x5000 high=0x0 low=0x100007fffff0000"),
            "127.0.0.1:80"
        );
    }

    #[test]
    fn states_have_names() {
        assert_eq!(
            [0, 1, 2, 7, 99].map(state),
            ["state 0", "ESTABLISHED", "SYN_SENT", "CLOSE", "state 99"]
        );
        assert!(fetch_arguments("sk", Some(56)).ends_with(" high=+56(sk):x64 low=+64(sk):x64"));
    }
}
