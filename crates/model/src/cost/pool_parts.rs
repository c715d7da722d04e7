//! What a pool is made of, as the price file describes it.

use crate::Value;
use serde::{Deserialize, Serialize};

/// Parts of a pool of CXL memory behind one switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolParts {
    /// Price of the switch with its case and power supply.
    pub switch_price: Value,
    /// PCIe lanes of the switch, for hosts and devices together.
    pub switch_lanes: Value,
    /// Lanes that each host takes.
    pub host_lanes: Value,
    /// Price of the adapter and cable of each host.
    pub adapter_price: Value,
    /// Price of one memory device with its memory.
    pub device_price: Value,
    /// Capacity of a device, GiB.
    pub device_gib: Value,
    /// Lanes that each device takes.
    pub device_lanes: Value,
    /// Price of a box that holds devices, with its power supply.
    pub box_price: Value,
    /// Devices that a box holds.
    pub box_devices: Value,
}

/// Names of the fields, in their order.
pub(super) const KEYS: [&str; 9] = [
    "switch_price",
    "switch_lanes",
    "host_lanes",
    "adapter_price",
    "device_price",
    "device_gib",
    "device_lanes",
    "box_price",
    "box_devices",
];

impl PoolParts {
    pub(super) fn field(&mut self, key: &str) -> Option<&mut Value> {
        Some(match key {
            "switch_price" => &mut self.switch_price,
            "switch_lanes" => &mut self.switch_lanes,
            "host_lanes" => &mut self.host_lanes,
            "adapter_price" => &mut self.adapter_price,
            "device_price" => &mut self.device_price,
            "device_gib" => &mut self.device_gib,
            "device_lanes" => &mut self.device_lanes,
            "box_price" => &mut self.box_price,
            "box_devices" => &mut self.box_devices,
            _ => return None,
        })
    }

    /// Every field with its name.
    pub(super) fn fields(&self) -> [(&'static str, &Value); 9] {
        let [
            switch,
            lanes,
            host,
            adapter,
            device,
            gib,
            of_device,
            price,
            holds,
        ] = KEYS;
        [
            (switch, &self.switch_price),
            (lanes, &self.switch_lanes),
            (host, &self.host_lanes),
            (adapter, &self.adapter_price),
            (device, &self.device_price),
            (gib, &self.device_gib),
            (of_device, &self.device_lanes),
            (price, &self.box_price),
            (holds, &self.box_devices),
        ]
    }
}
