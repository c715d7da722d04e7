//! Memory of the tables, from the process's allocator: the router places it by its class.

/// Zeroed bytes of one table.
///
/// Words, so that the allocator can hand out zeroed pages without touching them.
pub(crate) struct Storage(Vec<u64>);

impl Storage {
    /// At least `size_bytes` zeros, with room to begin at a whole cache line.
    pub fn zeroed(size_bytes: usize) -> Self {
        Storage(vec![0; size_bytes.div_ceil(8) + 8])
    }

    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}
