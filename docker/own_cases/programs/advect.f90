! One-dimensional advection; the argument chooses the input that breaks it.
program advect
  use, intrinsic :: ieee_arithmetic
  implicit none
  character(len=16) :: what
  real(8), allocatable :: u(:)
  real(8) :: dt
  integer :: i, n, status
  integer, pointer :: cell => null()
  call get_command_argument(1, what)
  print '(a)', ' advect: reading namelist'
  call sleep(1)
  allocate (u(10))
  u = 1
  n = 10
  dt = 0.1d0
  select case (trim(what))
  case ('bounds')
    n = 11
  case ('input')
    open (10, file='/shared/home/user1/advect.nml', status='old')
  case ('short')
    open (10, status='scratch')
    write (10, *) 1.0, 2.0
    rewind (10)
    read (10, *) u
  case ('zero')
    dt = u(1) - 1
    dt = 1 / dt
  case ('null')
    cell = 3
  case ('large')
    deallocate (u)
    allocate (u(400000000))
  case ('stop')
    error stop 'CFL number larger than 1, reduce dt'
  end select
  do i = 1, n
    u(i) = u(i) * (1 - dt)
  end do
  print *, 'sum', sum(u)
end program advect
