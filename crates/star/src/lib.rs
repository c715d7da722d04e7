//! Fused star joins: filters, dimension lookups and groups over narrow codes, in one pass.
