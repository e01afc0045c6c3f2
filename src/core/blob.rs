//! A named place of a workspace, and the inputs and outputs of an operator object: empty or a tensor.

use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Holds a tensor, or nothing yet.
#[derive(Debug, Clone, Default)]
pub struct Blob(Option<Tensor>);

impl Blob {
    /// An empty blob.
    pub fn create() -> Self {
        Blob(None)
    }

    /// Fills the blob with a copy of row-major values.
    pub fn init<T: Element>(&mut self, shape: impl Into<Shape>, values: &[T]) -> Result<()> {
        self.0 = Some(Tensor::from_vec(shape, values.to_vec())?);
        Ok(())
    }

    /// Puts a tensor in.
    pub fn set(&mut self, tensor: Tensor) {
        self.0 = Some(tensor);
    }

    /// The tensor, if there is one.
    pub fn tensor(&self) -> Option<&Tensor> {
        self.0.as_ref()
    }

    /// The tensor, to be written or replaced.
    pub fn tensor_mut(&mut self) -> Option<&mut Tensor> {
        self.0.as_mut()
    }

    /// A copy of the values in row-major order.
    pub fn read<T: Element>(&self) -> Result<Vec<T>> {
        match &self.0 {
            Some(tensor) => tensor.to_vec(),
            None => Err(Error::argument("Blob", "read", "an empty blob", "one that holds a tensor")),
        }
    }

    /// The element type, if there is a tensor.
    pub fn dtype(&self) -> Option<DType> {
        self.0.as_ref().map(Tensor::dtype)
    }
}

impl From<Tensor> for Blob {
    fn from(tensor: Tensor) -> Self {
        Blob(Some(tensor))
    }
}
