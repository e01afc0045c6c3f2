// A CUDA backend for torch that needs nothing of CUDA but a driver, which may be the emulated one: memory, copies and views.
// Tensors made with it are torch's own, of the device "cuda:0" with its dispatch keys: what `firelu.torch` does with them is
// what it does with those of a GPU. Nothing is computed by torch here.
#include <ATen/NativeFunctions.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>

#include <dlfcn.h>

namespace {
using Address = unsigned long long;

// A function of the driver that is loaded already.
template <typename... Arguments> void call(const char *name, Arguments... arguments) {
    auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(RTLD_DEFAULT, name));
    TORCH_CHECK(function, "the driver lacks ", name);
    const int code = function(arguments...);
    TORCH_CHECK(code == 0, name, ": ", code);
}

void *device_context = nullptr;

void enter() {
    if (!device_context) call("cuDevicePrimaryCtxRetain", &device_context, 0);
    call("cuCtxSetCurrent", device_context);
}

struct Memory final : c10::Allocator {
    // Kept to the end of the process: torch's own allocator does not go to the driver either, and knows when a stream is done.
    static void release(void *) {}
    c10::DataPtr allocate(size_t bytes) override {
        Address address = 0;
        enter();
        // As torch's own allocator does while a stream is captured.
        int mode = 2;
        call("cuThreadExchangeStreamCaptureMode", &mode);
        if (bytes) call("cuMemAlloc_v2", &address, bytes);
        call("cuThreadExchangeStreamCaptureMode", &mode);
        void *pointer = reinterpret_cast<void *>(address);
        return {pointer, pointer, &release, c10::Device(c10::kCUDA, 0)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void *to, const void *from, std::size_t bytes) const override {
        enter();
        call("cuMemcpyDtoD_v2", reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), bytes);
    }
};
Memory memory;

// One device with one stream.
struct Guard final : c10::impl::DeviceGuardImplInterface {
    static c10::Device here() { return {c10::kCUDA, 0}; }
    static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, here()); }
    c10::DeviceType type() const override { return c10::kCUDA; }
    c10::Device exchangeDevice(c10::Device) const override { return here(); }
    c10::Device getDevice() const override { return here(); }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::Stream getStream(c10::Device) const override { return stream(); }
    c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
    c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }
    void record(void **, const c10::Stream &, c10::DeviceIndex, c10::EventFlag) const override {}
    void block(void *, const c10::Stream &) const override {}
    bool queryEvent(void *) const override { return true; }
    void destroyEvent(void *, c10::DeviceIndex) const noexcept override {}
};
Guard guard;

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
    const auto type = dtype.value_or(at::get_default_dtype_as_scalartype());
    return at::detail::empty_generic(sizes, &memory, c10::DispatchKeySet(c10::DispatchKey::CUDA), type, format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
    const auto type = dtype.value_or(at::get_default_dtype_as_scalartype());
    return at::detail::empty_strided_generic(sizes, strides, &memory, c10::DispatchKeySet(c10::DispatchKey::CUDA), type);
}

// The whole storage of a tensor on the host, seen with the tensor's sizes and strides.
at::Tensor on_host(const at::Tensor &tensor) {
    const auto &storage = tensor.storage();
    const int64_t elements = storage.nbytes() / tensor.element_size();
    auto host = at::empty({elements}, tensor.options().device(at::kCPU));
    enter();
    call("cuCtxSynchronize");
    if (storage.nbytes()) {
        call("cuMemcpyDtoH_v2", host.data_ptr(), reinterpret_cast<Address>(storage.data()), storage.nbytes());
    }
    return host.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

at::Tensor &copy(at::Tensor &to, const at::Tensor &from, bool) {
    const at::Tensor source = from.is_cuda() ? on_host(from) : from;
    if (!to.is_cuda()) {
        to.copy_(source);
        return to;
    }
    const bool whole = to.is_contiguous() && to.nbytes() == to.storage().nbytes();
    at::Tensor target = whole ? at::empty(to.sizes(), to.options().device(at::kCPU)) : on_host(to);
    target.copy_(source);
    enter();
    call("cuCtxSynchronize");
    if (to.storage().nbytes()) {
        call("cuMemcpyHtoD_v2", reinterpret_cast<Address>(to.storage().data()),
             static_cast<const void *>(target.storage().data()), to.storage().nbytes());
        call("cuCtxSynchronize"); // a copy on the default stream comes before nothing of other streams
    }
    return to;
}

at::Tensor as_strided(const at::Tensor &self, c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<int64_t> offset) {
    return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}
at::Tensor view(const at::Tensor &self, c10::IntArrayRef sizes) { return at::native::view(self, sizes); }
} // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
    library.impl("empty.memory_format", &empty);
    library.impl("empty_strided", &empty_strided);
    library.impl("copy_", &copy);
    library.impl("as_strided", &as_strided);
    library.impl("view", &view);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    c10::SetAllocator(c10::kCUDA, &memory, 1);
    c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::kCUDA)].store(&guard);
    module.doc() = "Tensors of torch in the memory of a CUDA driver.";
}
