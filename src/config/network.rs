//! Networks: an address and the number of its significant leading bits.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A network such as `10.0.0.0/8`; an address alone is a network of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Whether an address belongs to the network. An IPv4 address in IPv6 form must be converted before.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Network, &'static str> {
        let known = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network = known.map_err(|_| "must be networks such as \"10.0.0.0/8\" or \"fd00::/8\"")?;
        // An IPv4 network in IPv6 form: clients are compared in IPv4 form.
        let address = network.addr().to_canonical();
        if address.is_ipv4() == network.addr().is_ipv4() {
            return Ok(Network(network));
        }
        let network = network.prefix_len().checked_sub(96).and_then(|prefix| IpNet::new(address, prefix).ok());
        let none = "must be an IPv4 network such as \"10.0.0.0/8\": no client has such an address";
        network.map(Network).ok_or(none)
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
            ("::ffff:10.0.0.0/104", "10.255.0.1", "11.0.0.0"),
            ("::ffff:10.1.2.3", "10.1.2.3", "10.1.2.4"),
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
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
