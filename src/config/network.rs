//! Networks: an address and the number of its significant leading bits.

use std::net::IpAddr;
use std::str::FromStr;

/// A network such as `10.0.0.0/8`; an address alone is a network of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether an address belongs to the network. An IPv4 address in IPv6 form must be converted before.
    pub fn contains(&self, address: IpAddr) -> bool {
        let equal_bits = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        equal_bits >= u32::from(self.prefix)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        const FORM: &str = "must be networks such as \"10.0.0.0/8\" or \"fd00::/8\"";
        let mut parts = text.trim().splitn(2, '/');
        let address: IpAddr = parts.next().and_then(|address| address.parse().ok()).ok_or(FORM)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = match parts.next() {
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= most).ok_or(FORM)?,
            None => most,
        };
        // Clients are compared in IPv4 form.
        match address.to_canonical().is_ipv4() == address.is_ipv4() {
            true => Ok(Network { address, prefix }),
            false => Err("must be an IPv4 network such as \"10.0.0.0/8\": no client has such an address".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_belongs_to_a_network_by_its_leading_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("fd00::/8", "fd12:3456::1", "fe80::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network} {outside}");
        }
    }

    #[test]
    fn invalid_networks_are_refused() {
        for text in [
            "",
            "all",
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0/8",
            "10.0.0.0/-1",
            "10.0.0.0/",
            "localhost",
            "::ffff:10.0.0.0/8",
            "::ffff:10.0.0.0/104",
            "::ffff:10.1.2.3",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
