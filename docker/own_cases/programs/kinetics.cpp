// Reaction kinetics; throws what its input makes it throw.
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

static double rate(const std::vector<double> &table, std::size_t at) { return table.at(at); }

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    std::cout << "kinetics: 12 species, 31 reactions" << std::endl;
    sleep(1);
    if (what == "input")
        throw std::runtime_error("mechanism.yaml: line 41: unknown species 'CH3O2'");
    if (what == "range")
        return rate(std::vector<double>(5), 7) > 0;
    if (what == "big") {
        std::vector<double> grid(std::stoul(argv[2]) << 17);
        std::cout << "grid of " << grid.size() << " cells" << std::endl;
    }
    if (what == "caught") {
        try {
            std::vector<double> grid(std::stoul(argv[2]) << 17);
        } catch (const std::bad_alloc &error) {
            std::cerr << "warning: " << error.what() << ": no room for the fine grid, using the coarse one" << std::endl;
        }
    }
    if (what == "overrun") {
        auto *cells = new double[10];
        volatile int last = argc + 8;
        cells[last] = 1;
        delete[] cells;
    }
    std::cout << "done" << std::endl;
    return 0;
}
