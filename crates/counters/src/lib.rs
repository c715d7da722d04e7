//! Hardware counters around a measurement.
