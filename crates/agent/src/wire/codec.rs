//! A gRPC codec with JSON messages.

use std::marker::PhantomData;

use bytes::{Buf, BufMut};
use serde::{Serialize, de::DeserializeOwned};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes `E` and decodes `D`.
pub(crate) struct JsonCodec<E, D>(PhantomData<(E, D)>);

impl<E, D> Default for JsonCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: Serialize + Send + 'static, D: DeserializeOwned + Send + 'static> Codec
    for JsonCodec<E, D>
{
    type Encode = E;
    type Decode = D;
    type Encoder = JsonEncoder<E>;
    type Decoder = JsonDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        JsonEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        JsonDecoder(PhantomData)
    }
}

pub(crate) struct JsonEncoder<E>(PhantomData<E>);

impl<E: Serialize> Encoder for JsonEncoder<E> {
    type Item = E;
    type Error = Status;

    fn encode(&mut self, item: E, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        serde_json::to_writer(dst.writer(), &item)
            .map_err(|error| Status::internal(format!("cannot write a message: {error}")))
    }
}

pub(crate) struct JsonDecoder<D>(PhantomData<D>);

impl<D: DeserializeOwned> Decoder for JsonDecoder<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        // This copies nothing if the message arrived in one piece.
        let message = src.copy_to_bytes(src.remaining());
        serde_json::from_slice(&message)
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("cannot read a message: {error}")))
    }
}
