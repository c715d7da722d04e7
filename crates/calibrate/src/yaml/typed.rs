//! Deserialises nodes of the tree into Rust types, with line and field in errors.

use super::{Mistake, Node, Value};
use crate::error::one_of;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::fmt;

/// `node` as a `T`. An empty value counts as an empty mapping where a mapping is expected.
pub(crate) fn typed<'a, T: Deserialize<'a>>(node: &'a Node) -> Result<T, Mistake> {
    T::deserialize(De(node)).map_err(|e| e.or_line(node.line))
}

impl std::error::Error for Mistake {}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; expected {}", self.problem, self.expected)
    }
}

impl de::Error for Mistake {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Mistake::new(0, message.to_string(), "another value")
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Mistake::new(0, format!("is {found}"), expected.to_string())
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Mistake::new(0, format!("is {found}"), expected.to_string())
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        let known = one_of(found, expected.iter().copied());
        Mistake::new(0, format!("unknown word {found:?}"), known)
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        let known = one_of(found, expected.iter().copied());
        Mistake::new(0, format!("unknown key {found:?}"), known)
    }

    fn missing_field(field: &'static str) -> Self {
        Mistake::new(
            0,
            format!("`{field}` is missing"),
            format!("a value for `{field}`"),
        )
    }
}

struct De<'a>(&'a Node);

impl<'a> De<'a> {
    fn wrong(&self, expected: &str) -> Mistake {
        Mistake::new(self.0.line, format!("is {}", self.0.kind()), expected)
    }

    fn number(&self) -> Result<f64, Mistake> {
        let number = self.0.as_text().and_then(|t| t.trim().parse::<f64>().ok());
        number
            .filter(|n| n.is_finite())
            .ok_or_else(|| self.wrong("a finite number"))
    }
}

impl<'de> Deserializer<'de> for De<'de> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items(items.iter(), 0)),
            Value::Map(entries) => visitor.visit_map(Entries(entries.iter(), None)),
        }
        .map_err(|e: Mistake| e.or_line(self.0.line))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0.as_text() {
            Some("true") => visitor.visit_bool(true),
            Some("false") => visitor.visit_bool(false),
            _ => Err(self.wrong("true or false")),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_f64(self.number()?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        // Through `f64`, so that 1e6 is a valid count.
        let number = self.number().map_err(|_| self.wrong("a whole number"))?;
        if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
            return Err(self.wrong("a whole number of at least 0"));
        }
        visitor.visit_u32(number as u32)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0.as_text() {
            Some(text) => visitor.visit_borrowed_str(text),
            None => Err(self.wrong("a text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_str(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0.value {
            Value::Null => visitor.visit_map(Entries([].iter(), None)),
            Value::Map(_) => self.deserialize_any(visitor),
            _ => Err(self.wrong("a mapping")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let (name, content) = match &self.0.value {
            Value::Text(_) => (self.0, None),
            Value::Map(entries) if entries.len() == 1 => (&entries[0].0, Some(&entries[0].1)),
            _ => {
                return Err(self.wrong(&format!(
                    "{{ KIND: {{ .. }} }} with KIND one of {}",
                    variants.join(", ")
                )));
            }
        };
        let line = self.0.line;
        visitor
            .visit_enum(Variant { name, content })
            .map_err(|e| e.or_line(line))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 char bytes byte_buf unit unit_struct newtype_struct seq tuple tuple_struct identifier
        ignored_any
    }
}

struct Items<'a>(std::slice::Iter<'a, Node>, usize);

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Mistake> {
        let Some(node) = self.0.next() else {
            return Ok(None);
        };
        let index = self.1;
        self.1 += 1;
        seed.deserialize(De(node))
            .map(Some)
            .map_err(|e| e.or_line(node.line).under(&format!("[{index}]")))
    }
}

struct Entries<'a>(std::slice::Iter<'a, (Node, Node)>, Option<&'a (Node, Node)>);

impl<'a> MapAccess<'a> for Entries<'a> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Mistake> {
        self.1 = self.0.next();
        let Some((key, _)) = self.1 else {
            return Ok(None);
        };
        seed.deserialize(De(key))
            .map(Some)
            .map_err(|e| e.or_line(key.line))
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Mistake> {
        let Some((key, node)) = self.1 else {
            return Err(Mistake::new(0, "a value without key", "a key"));
        };
        let key = key.as_text().unwrap_or_default();
        seed.deserialize(De(node))
            .map_err(|e| e.or_line(node.line).under(key))
    }
}

struct Variant<'a> {
    name: &'a Node,
    content: Option<&'a Node>,
}

/// Content of a variant without content: an empty mapping, which means defaults.
static NOTHING: Node = Node {
    line: 0,
    value: Value::Null,
};

impl<'a> EnumAccess<'a> for Variant<'a> {
    type Error = Mistake;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'a>>(self, seed: V) -> Result<(V::Value, Self), Mistake> {
        let value = seed
            .deserialize(De(self.name))
            .map_err(|e| e.or_line(self.name.line))?;
        Ok((value, self))
    }
}

impl<'a> VariantAccess<'a> for Variant<'a> {
    type Error = Mistake;

    fn unit_variant(self) -> Result<(), Mistake> {
        match self.content {
            None => Ok(()),
            Some(node) => Err(Mistake::new(node.line, "has a value", "the word alone")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Mistake> {
        let key = self.name.as_text().unwrap_or_default();
        seed.deserialize(De(self.content.unwrap_or(&NOTHING)))
            .map_err(|e| e.or_line(self.name.line).under(key))
    }

    fn tuple_variant<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        De(self.content.unwrap_or(&NOTHING)).deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        De(self.content.unwrap_or(&NOTHING)).deserialize_map(visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::read;
    use tierloom_model::reference::work::Work;

    fn work(text: &str) -> Result<Work, Mistake> {
        typed(&read(text).unwrap())
    }

    #[test]
    fn a_kind_of_work_may_stand_alone_or_with_parameters() {
        assert_eq!(
            work("read").unwrap(),
            work("{ read: { simd: true } }").unwrap()
        );
        let probe = work("probe:\n  rows: 2e8\n  prefetched: true\n").unwrap();
        assert!(matches!(probe, Work::Probe(j) if j.rows == 2e8 && j.prefetched));
    }

    #[test]
    fn wrong_keys_and_values_are_named_with_line_and_field() {
        let wrong = work("probe:\n  rows: 1\n  prefetch: true\n").unwrap_err();
        assert_eq!((wrong.line, wrong.field.as_str()), (3, "probe"));
        assert!(
            wrong.expected.contains("did you mean \"prefetched\"?"),
            "{wrong}"
        );
        let wrong = work("filter:\n  skip: 1.5\n").unwrap_err();
        assert_eq!((wrong.line, wrong.field.as_str()), (2, "filter.skip"));
        let wrong = work("prob: {}").unwrap_err();
        assert!(
            wrong.expected.contains("did you mean \"probe\"?"),
            "{wrong}"
        );
        assert!(work("read: {}\nwrite: {}\n").is_err());
    }
}
