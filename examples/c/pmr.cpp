// Containers of C++ in placed memory: a memory resource over the allocator of tierloom_region.h.
#include <cstdio>
#include <cstring>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <tierloom_region.h>
#include <vector>

class placed_memory : public std::pmr::memory_resource {
public:
    explicit placed_memory(const char *placement)
    {
        tl_allocator_options options;
        std::memset(&options, 0, sizeof options);
        options.size = sizeof options;
        options.placement = tl_string(placement);
        if (tl_allocator_create(&options, &allocator_) != TL_OK) {
            throw std::runtime_error(tl_last_error().data);
        }
    }

    placed_memory(const placed_memory &) = delete;
    placed_memory &operator=(const placed_memory &) = delete;

    ~placed_memory() override { tl_allocator_free(allocator_); }

    tl_usage usage() const
    {
        tl_usage usage;
        usage.size = sizeof usage;
        if (tl_allocator_usage(allocator_, &usage) != TL_OK) {
            throw std::runtime_error(tl_last_error().data);
        }
        return usage;
    }

private:
    void *do_allocate(std::size_t bytes, std::size_t align) override
    {
        void *memory = tl_allocate(allocator_, bytes, align);
        if (memory == nullptr) {
            throw std::bad_alloc();
        }
        return memory;
    }

    void do_deallocate(void *memory, std::size_t, std::size_t) override
    {
        // A destructor cannot report it, and it happens only for memory of another resource.
        static_cast<void>(tl_deallocate(allocator_, memory));
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        return this == &other;
    }

    tl_allocator *allocator_ = nullptr;
};

int main(int count, char **arguments)
{
    try {
        placed_memory memory(count > 1 ? arguments[1] : "0");
        {
            std::pmr::vector<double> values(&memory);
            for (int number = 0; number < 1000000; number++) {
                values.push_back(number);
            }
            double sum = 0;
            for (double value : values) {
                sum += value;
            }
            std::printf("sum %.0f in %llu bytes\n", sum,
                        static_cast<unsigned long long>(memory.usage().allocated_bytes));
        }
        return memory.usage().allocations == 0 ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
