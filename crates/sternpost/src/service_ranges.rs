//! Flags of the addresses and ports that services get.

use std::{net::IpAddr, ops::RangeInclusive};

use clap::Args;
use sternpost_registry::{
    kinds::service::allocation::{DEFAULT_RANGE, Ranges},
    validation::ip_ranges::{Family, parse_cidr},
};

/// The flags, which are kube-apiserver's.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Services")]
pub struct ServiceArgs {
    /// Where services get their addresses from: a range, or one of each IP family
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',', default_value = DEFAULT_RANGE, value_parser = parse_range)]
    pub service_cluster_ip_range: Vec<(IpAddr, u8)>,

    /// Where services get their node ports from: FIRST-LAST, FIRST+COUNT or one port
    #[arg(long, value_name = "PORTS", default_value = "30000-32767", value_parser = parse_ports)]
    pub service_node_port_range: RangeInclusive<u16>,
}

impl ServiceArgs {
    pub fn ranges(&self) -> anyhow::Result<Ranges> {
        let addresses = self.service_cluster_ip_range.clone();
        let families: Vec<Family> = addresses.iter().map(|range| Family::of(range.0)).collect();
        match families.as_slice() {
            [_] => {}
            [first, second] if first != second => {}
            _ => anyhow::bail!("--service-cluster-ip-range: want one range, or one of each IP family"),
        }
        Ok(Ranges { addresses, node_ports: self.service_node_port_range.clone() })
    }
}

/// As many as upstream wants, as a power of two.
const FEWEST_BITS: u8 = 3;

fn parse_range(text: &str) -> Result<(IpAddr, u8), String> {
    let range = parse_cidr(text).ok_or("want a range such as 10.96.0.0/12 or fd00::/108")?;
    let bits = if range.0.is_ipv4() { 32 } else { 128 };
    if bits - range.1 < FEWEST_BITS {
        return Err("the service cluster IP range must be at least 8 IP addresses".into());
    }
    Ok(range)
}

pub fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let unknown = || "want ports such as 30000-32767, 30000+100 or 30000".to_owned();
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| unknown());
    let (first, last) = if let Some((first, last)) = text.split_once('-') {
        (number(first)?, number(last)?)
    } else if let Some((first, more)) = text.split_once('+') {
        let first = number(first)?;
        (first, first.checked_add(number(more)?).ok_or_else(unknown)?)
    } else {
        (number(text)?, number(text)?)
    };
    if last < first {
        return Err(format!("end port cannot be less than start port: {text}"));
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        services: ServiceArgs,
    }

    #[test]
    fn ranges_are_read_as_kube_apiserver_reads_them() {
        let read = |flags: &[&str]| {
            let flags = Flags::try_parse_from(["sternpost"].iter().chain(flags)).ok()?;
            flags.services.ranges().ok()
        };
        assert_eq!(read(&[]), Some(Ranges::default()));
        for (range, expected) in [
            ("10.96.0.0/12", Some((vec!["10.96.0.0/12"], "10.96.0.1"))),
            ("10.0.0.1/24", Some((vec!["10.0.0.0/24"], "10.0.0.1"))),
            ("10.0.0.0/29", Some((vec!["10.0.0.0/29"], "10.0.0.1"))),
            ("10.0.0.0/30", None),
            ("fd00::/64", Some((vec!["fd00::/64"], "fd00::1"))),
            ("fd00::/127", None),
            ("10.0.0.0/24,fd00::/112", Some((vec!["10.0.0.0/24", "fd00::/112"], "10.0.0.1"))),
            ("10.0.0.0/24,10.1.0.0/24", None),
            ("10.0.0.0/24,fd00::/112,10.2.0.0/24", None),
            ("foo", None),
        ] {
            let read = read(&[&format!("--service-cluster-ip-range={range}")]);
            let read = read.map(|read| (read.cidrs(), read.first_address().unwrap().to_string()));
            let expected = expected
                .map(|(cidrs, first)| (cidrs.into_iter().map(str::to_owned).collect(), first.to_owned()));
            assert_eq!(read, expected, "{range}");
        }
        for (ports, expected) in [
            ("30000-32767", Some(30_000..=32_767)),
            ("30000", Some(30_000..=30_000)),
            ("30000+5", Some(30_000..=30_005)),
            ("32767-30000", None),
            ("1-70000", None),
            ("30000+5x", None),
            ("", None),
        ] {
            let read = read(&[&format!("--service-node-port-range={ports}")]);
            assert_eq!(read.map(|read| read.node_ports), expected, "{ports}");
        }
    }
}
